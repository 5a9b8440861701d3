"""`drivetrain run`: requests go out, their ends come back. The orchestrator is played by the test, on a real bus."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from drivetrain.cli.commands.run import read_tasks
from drivetrain.cli.errors import CliError
from drivetrain.cli.follow import follow, group_requests
from drivetrain.common.bus.base import Consumer
from drivetrain.common.bus.nats import NatsBus, connect
from drivetrain.common.events import DeadLetter, Event, RolloutFinished, RolloutRequested, RolloutStarted
from drivetrain.common.identity import new_id
from drivetrain.common.settings import BusSettings

TASK: dict[str, object] = {"name": "t", "instruction": "do it"}


@pytest.fixture
async def bus(nats_url: str) -> AsyncIterator[NatsBus]:
    opened = await connect(BusSettings(url=nats_url))
    yield opened
    await opened.close()


async def orchestrate(bus: NatsBus, run: str, count: int, answer: Callable[[RolloutRequested], list[Event]]) -> None:
    """Take `count` requests of a run from the stream and publish what `answer` makes of each."""
    consumer = Consumer("ROLLOUTS", f"test-{run}", (f"rollout.requested.{run}.>",))
    async with bus.consume(consumer) as subscription:
        for _ in range(count):
            (delivery,) = await subscription.fetch(1, 10)
            assert isinstance(delivery.event, RolloutRequested)
            for event in answer(delivery.event):
                await bus.publish(event)
            await delivery.ack()


def started(request: RolloutRequested) -> RolloutStarted:
    return RolloutStarted(rollout=request.rollout, policy=request.policy, session="s", at=1.0)


def finished(request: RolloutRequested) -> RolloutFinished:
    return RolloutFinished(
        rollout=request.rollout, policy=request.policy, session="s", reason="success", outcome=1.0, seconds=2.0, at=3.0
    )


async def test_a_group_is_followed_until_each_rollout_has_finished(bus: NatsBus) -> None:
    requests = group_requests([TASK], "p", new_id()[:12], 2, timeout_s=30, at=1.0)
    played = asyncio.create_task(
        orchestrate(bus, requests[0].rollout.run, 2, lambda request: [started(request), finished(request)])
    )
    events = [event async for event in follow(bus, requests, patience_s=10)]
    await played
    assert [type(event) for event in events].count(RolloutStarted) == 2
    assert {event.rollout.rollout for event in events if isinstance(event, RolloutFinished)} == {"1", "2"}
    assert requests[0].rollout.group_size == 2
    assert requests[0].task == TASK


async def test_a_refused_request_ends_the_following(bus: NatsBus) -> None:
    requests = group_requests([TASK], "p", new_id()[:12], 1, timeout_s=30, at=1.0)

    def refuse(request: RolloutRequested) -> list[Event]:
        letter = DeadLetter(
            stream="ROLLOUTS", consumer="o", subject_of=request.subject(), sequence=1, reason="bad", payload=b"", at=1.0
        )
        return [letter]

    played = asyncio.create_task(orchestrate(bus, requests[0].rollout.run, 1, refuse))
    (event,) = [event async for event in follow(bus, requests, patience_s=10)]
    await played
    assert isinstance(event, DeadLetter)
    assert event.reason == "bad"


async def test_silence_has_an_end(bus: NatsBus) -> None:
    requests = group_requests([TASK], "p", new_id()[:12], 1, timeout_s=30, at=1.0)
    with pytest.raises(CliError, match="is the orchestrator running"):
        await anext(follow(bus, requests, patience_s=0.1))


def test_each_task_of_a_run_has_a_group_of_its_own() -> None:
    requests = group_requests([TASK, {**TASK, "name": "u"}], "p", "r", 2, timeout_s=30, at=1.0)
    assert [(r.rollout.group, r.rollout.rollout, r.task["name"]) for r in requests] == [
        ("1", "1", "t"),
        ("1", "2", "t"),
        ("2", "3", "u"),
        ("2", "4", "u"),
    ]


def test_a_task_is_sent_as_its_file_says_with_the_harness_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("name: t\ninstruction: i\ncommand: ls\nverify: {command: 'true', files: {a.txt: b}}\n")
    verify = {"command": "true", "files": {"a.txt": "b"}}
    rest = {"name": "t", "instruction": "i", "verify": verify}
    assert read_tasks(path, None, None) == [{**rest, "command": "ls"}]
    assert read_tasks(path, "pi", None) == [{**rest, "harness": "pi"}]
    assert read_tasks(path, None, "date") == [{**rest, "command": "date"}]


def test_what_is_no_task_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text("name: t\ninstruction: i\n")
    with pytest.raises(CliError, match="verify is missing: add it") as failure:
        read_tasks(tmp_path / "task.yaml", None, None)
    assert failure.value.status == 2
    with pytest.raises(CliError, match="cannot be read"):
        read_tasks(tmp_path / "absent.yaml", None, None)
