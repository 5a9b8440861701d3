"""Sandboxes as folders and process groups of this machine.

A command runs in a session of its own, with an environment that holds only what is declared. It is not confined beyond
that: it may read what the orchestrator's user may read. Use it for harnesses and tasks that you trust.
"""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from drivetrain.orchestrator.backends.base import BackendError, CannotExec, Command, Exit
from drivetrain.orchestrator.backends.processes import Process, ProcessesRemain, end_all, supported
from drivetrain.orchestrator.trees import copy_out, make_real, merge_tree, remove

MARK = "DRIVETRAIN_LEASE"
"""Environment variable that every process of a lease inherits; its value is the lease's folder."""
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

T = TypeVar("T")


@dataclass(frozen=True)
class ProcessBackend:
    """Leases under one folder. `path` comes before the system's own folders in a command's PATH; `grace_s` is the
    time between SIGTERM and SIGKILL; with `keep`, a stopped lease's folder stays for inspection."""

    root: Path
    path: tuple[Path, ...] = ()
    grace_s: float = 2.0
    keep: bool = False

    def __post_init__(self) -> None:
        if not supported():
            raise BackendError("the process backend needs Linux with /proc and Python's pidfd functions")
        if not self.root.is_absolute():
            raise BackendError(f"the leases' folder {self.root} is relative: give an absolute path")

    async def start(self, name: str) -> "ProcessLease":
        lease = ProcessLease(self, self.root / name)
        try:
            for folder in ("work", "home", "tmp"):
                make_real(lease.folder / folder)
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

    def __init__(self, backend: ProcessBackend, folder: Path) -> None:
        self._backend = backend
        self.folder = folder
        self.work = str(folder / "work")
        self.home = str(folder / "home")
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
        return Exit(process.returncode or 0, timed_out, time.monotonic() - begun)

    async def upload(self, tree: Path, to: str) -> None:
        await _copying(merge_tree, tree, self.folder / to)

    async def download(self, path: str, to: Path) -> bool:
        return await _copying(copy_out, self.folder, path, to)

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
        own = {"HOME": self.home, "TMPDIR": str(self.folder / "tmp"), MARK: str(self.folder)}
        return {"PATH": path, "LANG": "C.UTF-8", **command.environment, **own}

    async def _spawn(self, program: str, command: Command, environment: dict[str, str]) -> asyncio.subprocess.Process:
        with self._log.open("ab") as log:
            try:
                return await asyncio.create_subprocess_exec(
                    program,
                    *command.argv[1:],
                    cwd=self.work,
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
        _signal_group(process, signal.SIGTERM)
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
