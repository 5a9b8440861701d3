"""The supervisor with small real processes: order, crashes, restarts, stubborn children, logs."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.cli.supervisor import ProcessEvent, ProcessFailed, ProcessSpec, Restarts, Supervisor
from drivetrain.cli.supervisor.logs import tail

QUICK = Restarts(limit=2, window_s=60, first_s=0.01)


@dataclass(frozen=True)
class FileCheck:
    """Passes once a file exists; the child makes it when it is ready."""

    path: Path

    async def passes(self) -> bool:
        return self.path.exists()


def python(name: str, code: str, folder: Path, needs: Sequence[str] = (), **options: Any) -> ProcessSpec:
    """A child that runs `code`; `ready()` in it makes its check pass."""
    mark = folder / f"{name}.ready"
    header = f"import os, pathlib, signal, subprocess, sys, time\ndef ready(): pathlib.Path({str(mark)!r}).touch()\n"
    command = (sys.executable, "-u", "-c", header + code)
    return ProcessSpec(name, command, FileCheck(mark), needs=tuple(needs), **options)


@asynccontextmanager
async def supervised(
    specs: Sequence[ProcessSpec], folder: Path, restarts: Restarts = QUICK
) -> AsyncIterator[tuple[Supervisor, list[ProcessEvent]]]:
    events: list[ProcessEvent] = []
    supervisor = Supervisor(specs, folder, events.append, restarts)
    try:
        yield supervisor, events
    finally:
        await supervisor.stop(within_s=5)


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (a file or a process of another program sets no event)
            await asyncio.sleep(0.01)


def kinds(events: Sequence[ProcessEvent], process: str) -> list[str]:
    return [event.kind for event in events if event.process == process]


def alive(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


SERVE = "ready()\nwhile True: time.sleep(60)"


async def test_a_process_starts_only_when_what_it_needs_is_ready_and_stops_before_it(tmp_path: Path) -> None:
    specs = [python("base", "time.sleep(0.2)\n" + SERVE, tmp_path), python("top", SERVE, tmp_path, needs=["base"])]
    async with supervised(specs, tmp_path) as (supervisor, events):
        await supervisor.start()
    order = [(event.process, event.kind) for event in events]
    assert order == [
        ("base", "starting"),
        ("base", "ready"),
        ("top", "starting"),
        ("top", "ready"),
        ("top", "stopping"),
        ("top", "stopped"),
        ("base", "stopping"),
        ("base", "stopped"),
    ]


async def test_a_crash_shows_the_last_lines_of_the_log_and_the_process_comes_back(tmp_path: Path) -> None:
    async with supervised([python("worker", "print('hello')\n" + SERVE, tmp_path)], tmp_path) as (supervisor, events):
        await supervisor.start()
        first = supervisor.states()["worker"].pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: kinds(events, "worker").count("ready") == 2)
        state = supervisor.states()["worker"]
        assert (state.state, state.restarts) == ("ready", 1)
        assert state.pid != first
    crash = next(event for event in events if event.kind == "crashed")
    assert "signal 9" in crash.message
    assert "hello" in crash.message


async def test_restarts_are_bounded_and_the_failure_tells_why(tmp_path: Path) -> None:
    crash = "print('run', len(os.listdir('/proc/self/fd')) > 0)\nprint('out of luck')\nsys.exit(3)"
    async with supervised([python("worker", crash, tmp_path)], tmp_path) as (supervisor, events):
        with pytest.raises(ProcessFailed, match=r"worker ended with status 3[^~]*out of luck"):
            await supervisor.start()
    assert kinds(events, "worker").count("starting") == 3
    assert (tmp_path / "worker.log").read_text().count("out of luck") == 3


async def test_a_crash_long_after_the_start_ends_wait(tmp_path: Path) -> None:
    code = f"ready()\nwhile not os.path.exists({str(tmp_path / 'die')!r}): time.sleep(0.01)\nsys.exit(5)"
    async with supervised([python("worker", code, tmp_path)], tmp_path) as (supervisor, _):
        await supervisor.start()
        (tmp_path / "die").touch()
        with pytest.raises(ProcessFailed, match="status 5"):
            await asyncio.wait_for(supervisor.wait(), 10)


async def test_bad_settings_are_not_tried_again(tmp_path: Path) -> None:
    code = "print('drivetrain worker: unknown setting x', file=sys.stderr)\nsys.exit(2)"
    async with supervised([python("worker", code, tmp_path)], tmp_path) as (supervisor, events):
        with pytest.raises(ProcessFailed, match="unknown setting x") as failure:
            await supervisor.start()
    assert failure.value.status == 2
    assert kinds(events, "worker").count("starting") == 1


async def test_a_missing_program_is_not_tried_again(tmp_path: Path) -> None:
    spec = ProcessSpec("ghost", (str(tmp_path / "no-such-program"),), FileCheck(tmp_path / "never"))
    async with supervised([spec], tmp_path) as (supervisor, _):
        with pytest.raises(ProcessFailed, match="ghost cannot be started"):
            await supervisor.start()


async def test_a_process_that_never_becomes_ready_is_given_up(tmp_path: Path) -> None:
    spec = python("slow", "print('loading')\ntime.sleep(60)", tmp_path, ready_s=0.3, grace_s=1)
    async with supervised([spec], tmp_path, Restarts(limit=0)) as (supervisor, _):
        with pytest.raises(ProcessFailed, match=r"slow was not ready within 0 s[^~]*loading"):
            await supervisor.start()


async def test_a_child_that_ignores_sigterm_is_killed_with_its_grandchildren(tmp_path: Path) -> None:
    code = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal, time; "
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)'])\n"
        f"pathlib.Path({str(tmp_path / 'grandchild')!r}).write_text(str(child.pid))\n" + SERVE
    )
    async with supervised([python("stubborn", code, tmp_path, grace_s=0.3)], tmp_path) as (supervisor, _):
        await supervisor.start()
        pid = supervisor.states()["stubborn"].pid
        grandchild = int((tmp_path / "grandchild").read_text())
        began = time.monotonic()
        await supervisor.stop(within_s=5)
        assert time.monotonic() - began < 3
    assert pid is not None
    assert not alive(pid)
    await until(lambda: not alive(grandchild))


async def test_the_grandchildren_of_a_crashed_process_end_before_it_is_restarted(tmp_path: Path) -> None:
    code = (
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'grandchildren')!r}, 'a').write(str(child.pid) + '\\n')\n" + SERVE
    )
    async with supervised([python("parent", code, tmp_path)], tmp_path) as (supervisor, events):
        await supervisor.start()
        os.kill(supervisor.states()["parent"].pid or 0, signal.SIGKILL)
        await until(lambda: len((tmp_path / "grandchildren").read_text().split()) == 2)
        await until(lambda: kinds(events, "parent").count("ready") == 2)
        first, second = (int(pid) for pid in (tmp_path / "grandchildren").read_text().split())
        await until(lambda: not alive(first))
        assert alive(second)


async def test_stopping_in_the_middle_of_the_start_leaves_nothing(tmp_path: Path) -> None:
    specs = [python("base", "time.sleep(60)", tmp_path), python("top", SERVE, tmp_path, needs=["base"])]
    async with supervised(specs, tmp_path) as (supervisor, events):
        start = asyncio.create_task(supervisor.start())
        await until(lambda: kinds(events, "base") == ["starting"])
        pid = supervisor.states()["base"].pid
        start.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await start
    assert pid is not None
    assert not alive(pid)
    assert kinds(events, "top") == []


async def test_the_spec_adds_to_the_environment(tmp_path: Path) -> None:
    spec = python(
        "worker", "print('colour', os.environ['COLOUR'], 'path' if os.environ['PATH'] else '')\n" + SERVE, tmp_path
    )
    spec = ProcessSpec(spec.name, spec.command, spec.check, env={"COLOUR": "green"})
    async with supervised([spec], tmp_path) as (supervisor, _):
        await supervisor.start()
        await until(lambda: "colour green path" in (tmp_path / "worker.log").read_text())


async def test_who_only_outlives_a_process_is_not_waited_for_at_the_start(tmp_path: Path) -> None:
    slow = python(
        "slow", f"while not os.path.exists({str(tmp_path / 'quick.ready')!r}): time.sleep(0.01)\n" + SERVE, tmp_path
    )
    quick = replace(python("quick", SERVE, tmp_path), outlived_by=("slow",))
    async with supervised([slow, quick], tmp_path) as (supervisor, events):
        await supervisor.start()
    order = [(event.process, event.kind) for event in events]
    assert order.index(("quick", "starting")) < order.index(("slow", "ready"))
    assert order.index(("quick", "stopped")) < order.index(("slow", "stopping"))


def test_an_order_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="top needs base, which must come before it"):
        Supervisor([python("top", SERVE, tmp_path, needs=["base"]), python("base", SERVE, tmp_path)], tmp_path)


@pytest.mark.parametrize(("crashes", "delay"), [([0.0], 0.5), ([0.0, 1.0], 1.0), ([0.0, 1.0, 2.0], 2.0)])
def test_delays_double(crashes: list[float], delay: float) -> None:
    assert Restarts(limit=3, window_s=60, first_s=0.5).delay(crashes, now=crashes[-1]) == delay


def test_crashes_of_long_ago_are_forgiven() -> None:
    restarts = Restarts(limit=1, window_s=10, first_s=0.5)
    assert restarts.delay([0.0, 5.0], now=5.0) is None
    assert restarts.delay([0.0, 50.0], now=50.0) == 0.5


@settings(deadline=None)
@given(
    st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), min_size=1)),
    st.integers(1, 30),
)
def test_the_tail_is_the_last_lines(tmp_path_factory: pytest.TempPathFactory, lines: list[str], count: int) -> None:
    log = tmp_path_factory.mktemp("tail") / "log"
    kept = [line for line in lines if line.strip()]
    log.write_text("\n".join(kept), encoding="utf-8")
    expected = "\n".join(kept).rstrip().splitlines()[-count:]
    assert tail(log, count).splitlines() == expected


def test_the_tail_starts_where_the_present_process_began_and_survives_broken_text(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old\n\xff new\n")
    assert tail(log, start=4) == "\ufffd new"
    assert tail(tmp_path / "absent") == ""
