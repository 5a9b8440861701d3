"""Sandboxes as folders and process groups of this machine.

A command runs in a session of its own, with an environment that holds only what is declared. With bubblewrap it sees
its own lease and the system's programs; without, it may read what the orchestrator's user may read.
"""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from drivetrain.orchestrator.backends.base import PLACES, BackendError, CannotExec, Command, Exit
from drivetrain.orchestrator.backends.bubblewrap import Bubblewrap
from drivetrain.orchestrator.backends.processes import Process, ProcessesRemain, ask_to_end, end_all, supported
from drivetrain.orchestrator.trees import copy_out, make_real, merge_tree, read_head, remove

MARK = "DRIVETRAIN_LEASE"
"""Environment variable that every process of a lease inherits; its value is the lease's folder."""
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
CONFINED = {"home": "/home/agent", "tmp": "/tmp"}
"""Where a confined command finds its folders; the others lie at the root, under their names."""

T = TypeVar("T")


@dataclass(frozen=True)
class ProcessBackend:
    """Leases under one folder. `path` comes before the system's own folders in a command's PATH; `grace_s` is the
    time between SIGTERM and SIGKILL; with `keep`, a stopped lease's folder stays for inspection; with `bubblewrap`,
    commands are confined."""

    root: Path
    path: tuple[Path, ...] = ()
    grace_s: float = 2.0
    keep: bool = False
    bubblewrap: Bubblewrap | None = None

    @property
    def fixed_places(self) -> bool:
        return self.bubblewrap is not None

    def __post_init__(self) -> None:
        if not supported():
            raise BackendError("the process backend needs Linux with /proc and Python's pidfd functions")
        if not self.root.is_absolute():
            raise BackendError(f"the leases' folder {self.root} is relative: give an absolute path")

    async def start(self, name: str, workdir: str = "/app") -> "ProcessLease":
        lease = ProcessLease(self, self.root / name, workdir)
        try:
            for place in PLACES:
                make_real(lease.folder / place)
            make_real(lease.folder / "logs" / "verifier")
        except OSError as error:
            raise BackendError(f"cannot create {lease.folder}: {error.strerror}") from error
        return lease

    async def reap(self) -> int:
        inside = f"{self.root}{os.sep}"
        ended = await _end(lambda process: (process.mark or "").startswith(inside))
        if not self.keep and self.root.is_dir():
            for folder in self.root.iterdir():
                await asyncio.to_thread(remove, folder)
        return ended


class ProcessLease:
    """See `Lease` for the contract."""

    def __init__(self, backend: ProcessBackend, folder: Path, workdir: str) -> None:
        self._backend = backend
        self.folder = folder
        self.places: Mapping[str, str] = _places(folder, workdir, backend.fixed_places)
        self._log = folder / "output.log"

    async def exec(self, command: Command) -> Exit:
        environment = self._environment(command)
        program = shutil.which(command.argv[0], path=environment["PATH"])
        if program is None:
            raise CannotExec(f"{command.argv[0]} was not found in {environment['PATH']}")
        begun = time.monotonic()
        process = await self._spawn(program, command, environment)
        try:
            timed_out = await self._wait(process, command.timeout_s)
        finally:
            # Also when this task is cancelled: nothing may stay behind.
            await asyncio.shield(self._sweep(process))
        return Exit(self._status(process.returncode or 0), timed_out, time.monotonic() - begun)

    async def upload(self, tree: Path, to: str) -> None:
        await _copying(merge_tree, tree, self.folder / to)

    async def download(self, path: str, to: Path) -> bool:
        return await _copying(copy_out, self.folder, path, to)

    async def read(self, path: str, limit: int) -> bytes | None:
        return await _copying(read_head, self.folder, path, limit)

    async def logs(self, limit: int) -> str:
        if not self._log.is_file():
            return ""
        with self._log.open("rb") as file:
            file.seek(max(0, self._log.stat().st_size - 4 * limit))
            return file.read().decode("utf-8", errors="replace").strip()[-limit:]

    async def stop(self) -> None:
        await _end(lambda process: process.mark == str(self.folder))
        if not self._backend.keep:
            await _copying(remove, self.folder)

    def _environment(self, command: Command) -> dict[str, str]:
        path = os.pathsep.join([*map(str, self._backend.path), SYSTEM_PATH])
        own = {variable: self.places[place] for place, variable in PLACES.items()}
        return {"PATH": path, "LANG": "C.UTF-8", **command.environment, **own, MARK: str(self.folder)}

    def _argv(self, program: str, command: Command) -> list[str]:
        argv = [program, *command.argv[1:]]
        if self._backend.bubblewrap is None:
            return argv
        binds = {str(self.folder / place): path for place, path in self.places.items()}
        return self._backend.bubblewrap.wrap(argv, binds, self.places["work"])

    def _status(self, status: int) -> int:
        """The command's own status: bubblewrap tells of a signal as shells do, by 128 and its number."""
        killed = self._backend.bubblewrap is not None and 128 < status < 128 + signal.NSIG
        return 128 - status if killed else status

    async def _spawn(self, program: str, command: Command, environment: dict[str, str]) -> asyncio.subprocess.Process:
        with self._log.open("ab") as log:
            try:
                return await asyncio.create_subprocess_exec(
                    *self._argv(program, command),
                    cwd=self.folder / "work",
                    env=environment,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise CannotExec(f"{command.argv[0]} could not be started: {error.strerror}") from error

    async def _wait(self, process: asyncio.subprocess.Process, timeout_s: float) -> bool:
        """Wait for the end; at the timeout ask with SIGTERM, then insist. Returns whether time ran out."""
        if await _ended(process, timeout_s):
            return False
        if self._backend.bubblewrap is None:
            _signal_group(process, signal.SIGTERM)
        else:  # the wrapper stays: its end would be the sudden end of all that is inside
            await asyncio.to_thread(ask_to_end, MARK, str(self.folder), process.pid)
        if not await _ended(process, self._backend.grace_s):
            _signal_group(process, signal.SIGKILL)
            await process.wait()
        return True

    async def _sweep(self, process: asyncio.subprocess.Process) -> None:
        """End the leader and all that it started, also what left its group or dropped the mark (not both)."""
        if process.returncode is None:
            _signal_group(process, signal.SIGKILL)
            await process.wait()
        await _end(lambda other: other.mark == str(self.folder) or other.session == process.pid)


def _places(folder: Path, workdir: str, confined: bool) -> dict[str, str]:
    if not confined:
        return {place: str(folder / place) for place in PLACES}
    return {**{place: f"/{place}" for place in PLACES}, **CONFINED, "work": workdir}


async def _copying(function: Callable[..., T], *arguments: object) -> T:
    """Run a copying function off the event loop."""
    try:
        return await asyncio.to_thread(function, *arguments)
    except OSError as error:
        raise BackendError(f"copying failed: {error}") from error


async def _end(chosen: Callable[[Process], bool]) -> int:
    try:
        return await end_all(MARK, chosen)
    except ProcessesRemain as error:
        raise BackendError(str(error)) from error


async def _ended(process: asyncio.subprocess.Process, timeout_s: float) -> bool:
    try:
        await asyncio.wait_for(process.wait(), timeout_s)
    except TimeoutError:
        return False
    return True


def _signal_group(process: asyncio.subprocess.Process, signum: signal.Signals) -> None:
    # The leader was not waited for yet, so its pid still names its group.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signum)
