"""Turns recorded on a real JetStream, scored live, scored again as another judge would, and taken in by the trainer."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from drivetrain.common.bus import NatsBus, connect
from drivetrain.common.events import Message, TurnFollowed, TurnScored
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.settings import BusSettings
from drivetrain.judge.app import rules, serve
from drivetrain.judge.settings import JudgeSettings
from drivetrain.trainer.batches.batches import BatchRules, samples_of
from drivetrain.trainer.batches.collecting import Turns
from drivetrain.trainer.batches.inbox import Inbox, Memory
from drivetrain.trainer.batches.intake import scores_consumer
from drivetrain.trainer.batches.position import Position
from drivetrain.trainer.samples.samples import Reason, Sample
from drivetrain.trainer.settings.settings import TrainerSettings
from tests.judge_world import recorded
from tests.servers import free_port

SAID = ("Thanks!", "Too long.", "How do tides work?")


@pytest.fixture
async def bus(nats_url: str) -> AsyncIterator[NatsBus]:
    bus = await connect(BusSettings(url=nats_url))
    yield bus
    await bus.close()


def followed(policy: str, number: int) -> TurnFollowed:
    """A turn whose tool failed, and a user who is content, is not, or says nothing of it."""
    after: list[Message] = [
        {"role": "tool", "tool_call_id": "c", "content": "bash: x: command not found"},
        {"role": "user", "content": SAID[number % 3]},
    ]
    asked: list[Message] = [{"role": "user", "content": "What is rain?"}]
    return TurnFollowed(
        tenant="acme", policy=policy, session=f"s{number % 5}", turn=f"t{number}", n=0, messages=after, before=asked,
        reply={"role": "assistant", "content": "water"}, at=100.0 + number,
    )  # fmt: skip


async def live(bus: NatsBus, policy: str, turns: int) -> None:
    """Let the judge as it is by default score the turns."""
    for number in range(turns):
        state = followed(policy, number)
        await bus.publish(recorded(state.turn, state.at, policy=policy, session=state.session))
        await bus.publish(state)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        life = Lifecycle(group)
        settings = JudgeSettings(judge="rules")
        serve(life, settings, bus, rules(settings))
        while len(await bus.last("SCORES", f"turn.scored.*.{policy}.>")) < turns:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        life.stop()


async def rewards(bus: NatsBus, policy: str, judge: str) -> dict[str, float | None]:
    found = [stored.event async for stored in bus.replay("SCORES", f"turn.scored.*.{policy}.*.*.{judge}.*")]
    return {score.turn: score.reward for score in found if isinstance(score, TurnScored)}


def rerun(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drivetrain.cli", "judge", "rerun", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


class Whole:
    """Takes every score for a sample."""

    async def sample(self, scored: TurnScored, sequence: int) -> Sample:
        return Sample(scored.session, scored.turn, sequence, (1,), (2,), (-0.5,), (0,), 1.0, scored.reward or 0.0)


async def taken_in(bus: NatsBus, policy: str, judge: str) -> tuple[dict[str, float], list[Reason]]:
    """The rewards of what the trainer's intake would train, and why it dropped the rest."""
    settings = TrainerSettings(policy=policy, judge=judge, model="m", store=Path("s"))
    dropped: list[Reason] = []
    unread: Any = Whole()
    memory, rules_of = Memory(Position(), {}, judge), BatchRules(100, 1, 0.0, 4)
    inbox = Inbox(bus, Turns(unread), rules_of, memory, lambda reason, count: dropped.append(reason))
    async with bus.consume(scores_consumer(settings)) as subscription:
        while deliveries := await subscription.fetch(100, 0.5):
            for delivery in deliveries:
                await inbox.receive(delivery)
        batch = inbox.take()
        await inbox.finish(batch)
    return {sample.turn: sample.reward for sample in samples_of(batch)}, dropped


async def test_recorded_turns_are_scored_again_and_the_trainer_takes_the_judge_that_it_names(
    bus: NatsBus, nats_url: str, tmp_path: Path
) -> None:
    policy = f"p{uuid4().hex[:12]}"
    await live(bus, policy, turns=12)
    config = tmp_path / "judge.toml"
    config.write_text('precedence = ["reaction", "environment"]\n')
    arguments = ["--policy", policy, "--since", "1970-01-01T00:01:42", "--until", "1970-01-01T00:01:52"]
    arguments += ["--judge", "kind", "--config", str(config), "--bus", nats_url]

    counted = await asyncio.to_thread(rerun, *arguments, "--dry-run", "--json")
    assert counted.returncode == 0, counted.stderr
    assert (json.loads(counted.stdout)["next_states"], await rewards(bus, policy, "kind")) == (10, {})

    first = await asyncio.to_thread(rerun, *arguments)
    assert first.returncode == 0, first.stderr
    told = {f"t{number}": (1.0, -1.0, -1.0)[number % 3] for number in range(2, 12)}
    assert await rewards(bus, policy, "kind") == told
    assert await rewards(bus, policy, "rules") == {f"t{number}": -1.0 for number in range(12)}
    assert "10 scores stored, 0 were stored before" in first.stdout
    assert "agreement 0.700" in first.stdout  # 3 of 10 are thanks: t3, t6, t9
    assert "Rewards that changed: 3" in first.stdout

    second = await asyncio.to_thread(rerun, *arguments, "--json")
    report = json.loads(second.stdout)
    assert (report["stored"], report["known"]) == (0, 10)
    assert report["difference"]["confusion"]["-1"] == {"-1": 7, "0": 0, "+1": 3, "no score": 0}
    assert [change["turn"] for change in report["difference"]["changes"]] == ["t3", "t6", "t9"]
    assert await rewards(bus, policy, "kind") == told

    assert await taken_in(bus, policy, "kind") == (told, [Reason.OTHER_JUDGE] * 12)
    assert await taken_in(bus, policy, "rules") == ({f"t{n}": -1.0 for n in range(12)}, [Reason.OTHER_JUDGE] * 10)


def test_what_cannot_be_is_one_clear_line(nats_url: str) -> None:
    nowhere = rerun("--policy", "p", "--since", "7d", "--bus", f"nats://127.0.0.1:{free_port()}")
    assert (nowhere.returncode, "no NATS server answers" in nowhere.stderr) == (1, True)
    nobody = rerun("--policy", "nobody", "--since", "7d", "--bus", nats_url)
    assert (nobody.returncode, "nobody has no turns" in nobody.stderr) == (1, True)
    assert nowhere.stderr.count("\n") == nobody.stderr.count("\n") == 1
