"""Processes that a benchmark starts and ends, and what they cost: CPU time and memory, as /proc says."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Cost(msgspec.Struct, frozen=True):
    """CPU seconds since the start of the processes, and their memory now."""

    cpu_s: float
    memory_mb: float


class DidNotStart(RuntimeError):
    """A process ended or did not listen in time; the message ends with its last output."""


def free_port() -> int:
    """A TCP port on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(
    command: list[str], port: int, log: Path, environment: Mapping[str, str] | None = None, timeout_s: float = 120
) -> Iterator[int]:
    """A process that listens on `port`, with its children ended when the block is left. Gives its pid.

    Raises:
        DidNotStart: it does not listen in time.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=None if environment is None else {**os.environ, **environment},
            start_new_session=True,
        )
    try:
        _wait(process, port, log, timeout_s)
        yield process.pid
    finally:
        _end(process)


def cost(pid: int) -> Cost:
    """What a process and all its descendants have used."""
    cpu_s, pages = 0.0, 0
    for each in _family(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            after = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            # user, system, and the same of children that have ended
            cpu_s += sum(int(ticks) for ticks in after[11:15]) / _TICKS
            pages += int(after[21])
    return Cost(cpu_s, pages * _PAGE / 1e6)


def _family(pid: int) -> list[int]:
    family, todo = [], [pid]
    while todo:
        each = todo.pop()
        family.append(each)
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                todo += [int(child) for child in children.read_text().split()]
    return family


def _wait(process: "subprocess.Popen[bytes]", port: int, log: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
    raise DidNotStart(f"what {log.name} tells of does not listen on port {port} within {timeout_s:g} s:\n{tail}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End it and what it started; it is the leader of a group of its own."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(12)
    process.wait()
