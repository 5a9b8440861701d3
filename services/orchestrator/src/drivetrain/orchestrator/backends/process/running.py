"""One command of a lease, from its start to the end of the last process that it started."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from drivetrain.orchestrator.backends.base import BackendError, CannotExec, Exit, Limit
from drivetrain.orchestrator.backends.process.cgroups import Group
from drivetrain.orchestrator.backends.process.processes import ProcessesRemain, ask_to_end, end_all

MARK = "DRIVETRAIN_LEASE"
"""Environment variable that every process of a lease inherits; its value is the lease's folder."""
ENTER = 'for group in $1; do echo 0 > "$group/cgroup.procs" || exit 126; done; shift; exec "$@"'
"""Enters the control groups before anything else: whatever is started from then on is in them."""

Cut = Literal["time", "disk"]


@dataclass(frozen=True)
class Ground:
    """Where a command runs: the lease's folder, its control group, and whether bubblewrap is around it."""

    folder: Path
    group: Group | None
    confined: bool
    grace_s: float


async def run(
    argv: Sequence[str],
    environment: dict[str, str],
    ground: Ground,
    timeout_s: float,
    full: Callable[[], Awaitable[None]],
) -> Exit:
    """Run a command line to its end, to its timeout, or until `full` returns: then the disk is.

    Raises:
        CannotExec: nothing was started.
        BackendError: processes could not be ended.
    """
    before = ground.group.hits() if ground.group else {}
    begun = time.monotonic()
    process = await _spawn(argv, environment, ground)
    cut: Cut | None = None
    try:
        cut = await _wait(process, ground, timeout_s, full)
    finally:
        # Also when this task is cancelled: nothing may stay behind.
        await asyncio.shield(sweep(ground, process))
    limits: list[Limit] = [limit for limit, count in _hits(ground).items() if count > before[limit]]
    if cut == "disk":
        limits.append("disk")
    return Exit(_status(process.returncode or 0, ground), cut == "time", time.monotonic() - begun, limits=tuple(limits))


async def sweep(ground: Ground, leader: asyncio.subprocess.Process | None = None) -> None:
    """End all that runs in a lease. Its group knows every process of it; only those that are not confined may have left
    the group: they are found by their session and their mark."""
    if leader is not None and leader.returncode is None:
        _signal_group(leader, signal.SIGKILL)
        await leader.wait()
    if ground.group is not None:
        await asyncio.to_thread(ground.group.kill)
    if ground.group is None or not ground.confined:
        session, mark = leader.pid if leader else None, str(ground.folder)
        try:
            await end_all(MARK, lambda other: other.mark == mark or other.session == session)
        except ProcessesRemain as error:
            raise BackendError(str(error)) from error


def _hits(ground: Ground) -> dict[Limit, int]:
    return ground.group.hits() if ground.group else {}


def _status(status: int, ground: Ground) -> int:
    """The command's own status: bubblewrap tells of a signal as shells do, by 128 and its number."""
    killed = ground.confined and 128 < status < 128 + signal.NSIG
    return 128 - status if killed else status


async def _spawn(argv: Sequence[str], environment: dict[str, str], ground: Ground) -> asyncio.subprocess.Process:
    if ground.group is not None:
        argv = ("/bin/sh", "-c", ENTER, "sh", " ".join(map(str, ground.group.paths)), *argv)
    with (ground.folder / "output.log").open("ab") as log:
        try:
            return await asyncio.create_subprocess_exec(
                *argv,
                cwd=ground.folder / "work",
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise CannotExec(f"the command could not be started: {error.strerror}") from error


async def _wait(
    process: asyncio.subprocess.Process, ground: Ground, timeout_s: float, full: Callable[[], Awaitable[None]]
) -> Cut | None:
    """Wait for the end; at the timeout ask with SIGTERM, then insist; a full disk leaves no time to ask. Returns what
    cut the command short."""
    watch = asyncio.ensure_future(full())
    leaving = asyncio.ensure_future(process.wait())
    try:
        done, _ = await asyncio.wait((leaving, watch), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if leaving in done:
            return None
        if watch not in done:
            await _ask_to_end(process, ground)
            await asyncio.wait((leaving,), timeout=ground.grace_s)
        _signal_group(process, signal.SIGKILL)
        await leaving
    finally:
        watch.cancel()
        leaving.cancel()
    return "disk" if watch in done else "time"


async def _ask_to_end(process: asyncio.subprocess.Process, ground: Ground) -> None:
    if ground.confined:  # the wrapper stays: its end would be the sudden end of all that is inside
        await asyncio.to_thread(ask_to_end, MARK, str(ground.folder), process.pid)
    else:
        _signal_group(process, signal.SIGTERM)


def _signal_group(process: asyncio.subprocess.Process, signum: signal.Signals) -> None:
    # The leader was not waited for yet, so its pid still names its group.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signum)
