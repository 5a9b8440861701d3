"""A death, a stop, a retry, a wish to end: each rollout still ends once, and the bus can tell its whole life."""

import asyncio
import time
from pathlib import Path

import pytest

from drivetrain.common.bus.memory import MemoryBus
from drivetrain.common.events import (
    RolloutCancel,
    RolloutMoved,
    RolloutRef,
    RolloutStarted,
    WeightsCandidate,
    WeightsPromoted,
)
from drivetrain.orchestrator.backends.base import BackendError, Sandbox
from drivetrain.orchestrator.backends.process.backend import ProcessBackend
from drivetrain.orchestrator.backends.process.lease import ProcessLease
from drivetrain.orchestrator.lifecycle.rollouts import Ending, Rollout, moved_event, outcome_signal
from tests.orchestrating import Service, serving, until

REF = RolloutRef(run="r", group="g", rollout="o", group_size=2)


async def moves(service: Service, rollout: str = "o") -> list[str]:
    stored = await service.bus.last("ROLLOUTS", f"rollout.moved.r.{rollout}.>")
    return [
        f"{move.attempt} {move.state}" for move in (found.event for found in stored) if isinstance(move, RolloutMoved)
    ]


async def test_every_state_is_an_event(tmp_path: Path) -> None:
    async with serving(Service(MemoryBus(), tmp_path)) as service:
        await service.request("echo worked")
        done = await service.finished()
    assert await moves(service) == ["1 starting", "1 running", "1 grading"]
    assert (done.attempts, done.log) == (1, "worked")


async def test_waiting_for_a_slot_is_no_part_of_how_long_it_took(tmp_path: Path) -> None:
    async with serving(Service(MemoryBus(), tmp_path, concurrency=1)) as service:
        await service.request("sleep 1.5", rollout="first")
        await service.request("true", rollout="second")
        assert (await service.finished("second")).seconds < 1.5


async def test_a_rollout_under_way_at_the_death_is_tried_again_with_a_session_of_its_own(tmp_path: Path) -> None:
    service = Service(MemoryBus(), tmp_path)
    await service.request("true")
    began = Rollout(REF, "p", "s", since=time.time() - 3)
    await service.bus.publish(RolloutStarted(rollout=REF, policy="p", session="s", at=began.since))
    await service.bus.publish(moved_event(began.to("starting"), time.time()))
    async with serving(service):
        done = await service.finished()
    assert (done.reason, done.outcome, done.attempts) == ("success", 1.0, 2)
    assert done.session != "s"
    assert done.seconds >= 3
    assert (await service.signal()).session == done.session


async def test_a_rollout_that_takes_every_life_down_ends(tmp_path: Path) -> None:
    service = Service(MemoryBus(), tmp_path)
    await service.request(f"touch {tmp_path / 'ran'}")
    await service.bus.publish(RolloutStarted(rollout=REF, policy="p", session="s", at=time.time()))
    for attempt in (1, 2, 3):
        rollout = Rollout(REF, "p", f"s{attempt}", time.time(), attempt)
        await service.bus.publish(moved_event(rollout.to("starting"), time.time()))
    async with serving(service):
        done = await service.finished()
    assert (done.reason, done.outcome) == ("infrastructure", None)
    assert done.detail == "the orchestrator ended while this rollout ran, 3 times"
    assert not (tmp_path / "ran").exists()


async def test_an_outcome_stored_before_the_death_stands(tmp_path: Path) -> None:
    service = Service(MemoryBus(), tmp_path)
    await service.request(f"touch {tmp_path / 'ran'}")
    rollout = Rollout(REF, "p", "s", since=time.time())
    await service.bus.publish(RolloutStarted(rollout=REF, policy="p", session="s", at=time.time()))
    await service.bus.publish(moved_event(rollout.to("starting"), time.time()))
    await service.bus.publish(outcome_signal(rollout, Ending("success", 1.0), time.time()))
    async with serving(service):
        done = await service.finished()
    assert (done.reason, done.outcome, done.session) == ("success", 1.0, "s")
    assert len(await service.bus.last("SIGNALS", "signal.>")) == 1
    assert not (tmp_path / "ran").exists()


async def test_stopping_gives_a_rollout_time_and_the_next_life_goes_on_with_the_rest(tmp_path: Path) -> None:
    bus = MemoryBus()
    first = Service(bus, tmp_path / "a")
    task = asyncio.create_task(first.orchestrator.serve())
    await first.request(f"test -e {tmp_path / 'go'} || sleep 600", rollout="long")
    await first.request("sleep 0.3", rollout="short")
    for rollout in ("long", "short"):
        await first.started(rollout)
    await first.request("true", rollout="waiting")
    await first.orchestrator.drain(3.0)
    await task
    assert not first.orchestrator.serving
    assert (await first.finished("short")).reason == "success"
    assert (await moves(first, "long"))[-1] == "1 waiting"
    (tmp_path / "go").touch()
    async with serving(Service(bus, tmp_path / "b")) as second:
        long, waiting = await second.finished("long"), await second.finished("waiting")
    assert (long.reason, long.attempts, waiting.reason, waiting.attempts) == ("success", 2, "success", 1)


class Unlucky:
    """A backend whose first sandboxes fail."""

    def __init__(self, inner: ProcessBackend, failures: int) -> None:
        self._inner, self.left, self.started = inner, failures, list[str]()

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def start(self, sandbox: Sandbox) -> ProcessLease:
        self.started.append(sandbox.name)
        self.left -= 1
        if self.left >= 0:
            raise BackendError("the node is gone")
        return await self._inner.start(sandbox)


@pytest.mark.parametrize(("failures", "reason", "attempts"), [(2, "success", 3), (99, "infrastructure", 3)])
async def test_what_is_nobodys_fault_is_tried_again_a_few_times(
    tmp_path: Path, failures: int, reason: str, attempts: int
) -> None:
    unlucky = Unlucky(ProcessBackend(tmp_path / "leases"), failures)
    async with serving(Service(MemoryBus(), tmp_path, backend=unlucky)) as service:  # type: ignore[arg-type]
        await service.request("true")
        done = await service.finished()
    assert (done.reason, done.attempts) == (reason, attempts)
    assert unlucky.started[:3] == ["r.o.1", "r.o.2", "r.o.3"]
    assert (await moves(service))[:2] == ["1 starting", "1 waiting"]


async def test_what_a_harness_or_a_task_did_is_not_tried_again(tmp_path: Path) -> None:
    async with serving(Service(MemoryBus(), tmp_path)) as service:
        await service.request("kill -SEGV $$", rollout="crash")
        await service.request("true", rollout="setup", setup="exit 3")
        await service.request("true", rollout="verifier", verify={"command": "sleep 60", "timeout_s": 0.1})
        ends = [await service.finished(name) for name in ("crash", "setup", "verifier")]
    assert [(end.reason, end.attempts) for end in ends] == [
        *(("harness_crash", 1), ("infrastructure", 1), ("infrastructure", 1))
    ]


async def test_a_full_context_keeps_the_work_so_far(tmp_path: Path) -> None:
    task = {"harness": "mini-swe-agent", "command": None}
    refusal = "Error code: 400 - {'code': 'context_length_exceeded'}"
    program = tmp_path / "bin" / "mini"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho 7 > out.txt\necho "{refusal}"\nexit 1\n')
    program.chmod(0o755)
    backend = ProcessBackend(tmp_path / "leases", path=(program.parent,))
    async with serving(Service(MemoryBus(), tmp_path, backend=backend)) as service:
        await service.request(**task, verify={"command": "grep -qx 7 out.txt"})  # type: ignore[arg-type]
        done = await service.finished()
    assert (done.reason, done.outcome) == ("context_overflow", 1.0)
    assert refusal in done.detail


async def test_without_salvage_what_was_cut_short_is_not_graded(tmp_path: Path) -> None:
    async with serving(Service(MemoryBus(), tmp_path, salvage=False)) as service:
        await service.request("sleep 600", timeout_s=0.3)
        done = await service.finished()
    assert (done.reason, done.outcome) == ("timeout", None)


async def test_a_rollout_is_cancelled_wherever_it_stands(tmp_path: Path) -> None:
    def cancel(rollout: str, why: str = "") -> RolloutCancel:
        ref = RolloutRef(run="r", group="g", rollout=rollout)
        return RolloutCancel(rollout=ref, detail=why, at=time.time())

    service = Service(MemoryBus(), tmp_path, concurrency=1)
    await service.bus.publish(cancel("early"))
    async with serving(service):
        await service.request("sleep 600", rollout="running")
        await service.request("sleep 600", rollout="waiting")
        await until(lambda: reached(service, "1 running"))
        await service.bus.publish(cancel("waiting", "not needed"))
        await service.bus.publish(cancel("running", "enough"))
        await service.request("sleep 600", rollout="early")
        ends = {name: await service.finished(name) for name in ("running", "waiting", "early")}
    assert {name: (end.reason, end.outcome, end.detail) for name, end in ends.items()} == {
        "running": ("cancelled", None, "cancelled: enough"),
        "waiting": ("cancelled", None, "cancelled: not needed"),
        "early": ("cancelled", None, "cancelled by request"),
    }
    assert list((tmp_path / "leases").iterdir()) == []


async def reached(service: Service, state: str) -> bool | None:
    return state in await moves(service, "running") or None


async def test_rollouts_wait_while_the_trainer_is_too_far_ahead(tmp_path: Path) -> None:
    service = Service(MemoryBus(), tmp_path)
    for version in (1, 2):
        await service.bus.publish(candidate(version))
    service.demand.held("p")
    await service.demand.look()
    async with serving(service):
        await service.request("true")
        await asyncio.sleep(0.5)
        assert await service.one("rollout.started.r.o", RolloutStarted) is None
        await service.bus.publish(WeightsPromoted(policy="p", version=1, replicas=["v"], at=1.0))
        assert (await service.finished()).reason == "success"


def candidate(version: int) -> WeightsCandidate:
    return WeightsCandidate(policy="p", version=version, parent=version - 1, digest="d", step=version, at=1.0)
