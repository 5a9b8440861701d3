"""Finding and ending processes on Linux by what they hardly shed: their session, and a mark in their environment.

A process is signalled through a pidfd that was opened before it was looked at, so that a recycled pid is never hit.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
SETTLE_S = 0.01
"""How long killed processes are given to vanish before the next look."""


class ProcessesRemain(RuntimeError):
    """Processes outlived every SIGKILL for the given time; the message has their pids."""


@dataclass(frozen=True)
class Process:
    """A live process as /proc shows it. `mark` is the value of the sought environment variable, None without it."""

    pid: int
    session: int
    mark: str | None


def supported() -> bool:
    """Whether this system has what the functions here need."""
    return PROC.joinpath("self", "stat").exists() and hasattr(os, "pidfd_open")


def count_of(user: int) -> int:
    """How many processes a user has."""
    found = 0
    for pid in _pids():
        with suppress(OSError):
            found += (PROC / str(pid)).stat().st_uid == user
    return found


async def end_all(variable: str, chosen: Callable[[Process], bool], limit_s: float = 5.0) -> int:
    """SIGKILL every process that `chosen` accepts, again and again until none is left; returns how many were hit.

    Raises:
        ProcessesRemain: some were still there after `limit_s`.
    """
    deadline = time.monotonic() + limit_s
    hit: set[int] = set()
    while found := await asyncio.to_thread(_kill_chosen, variable, chosen):
        hit |= found
        if time.monotonic() > deadline:
            raise ProcessesRemain(f"processes {sorted(found)} outlived SIGKILL for {limit_s:g} s")
        await asyncio.sleep(SETTLE_S)
    return len(hit)


def ask_to_end(variable: str, mark: str, but: int) -> None:
    """SIGTERM to every process with that mark, except one."""
    _signal(signal.SIGTERM, variable, lambda process: process.mark == mark and process.pid != but)


def _kill_chosen(variable: str, chosen: Callable[[Process], bool]) -> set[int]:
    return _signal(signal.SIGKILL, variable, chosen)


def _signal(signum: signal.Signals, variable: str, chosen: Callable[[Process], bool]) -> set[int]:
    found = set()
    for pid in _pids():
        with suppress(OSError):  # it ended meanwhile, or belongs to someone else
            handle = os.pidfd_open(pid)
            try:
                if (process := _look(pid, variable)) and chosen(process):
                    signal.pidfd_send_signal(handle, signum)
                    found.add(pid)
            finally:
                os.close(handle)
    return found


def _pids() -> Iterator[int]:
    own = os.getpid()
    return (int(entry) for entry in os.listdir(PROC) if entry.isdecimal() and int(entry) != own)


def _look(pid: int, variable: str) -> Process | None:
    """The process, or None for one that has ended and only awaits its parent."""
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return Process(pid, session=int(fields[3]), mark=_mark(pid, variable))


def _mark(pid: int, variable: str) -> str | None:
    prefix = f"{variable}=".encode()
    try:
        entries = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except PermissionError:
        return None
    return next((os.fsdecode(entry[len(prefix) :]) for entry in entries if entry.startswith(prefix)), None)
