"""Signals that come late, over a real JetStream: each is a new revision of the score, and a turn is trained once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from drivetrain.common.bus import NatsBus, connect
from drivetrain.common.bus.base import Subscription
from drivetrain.common.events import Event, RolloutRef, RolloutScored, TurnScored
from drivetrain.common.settings import BusSettings
from drivetrain.judge import joins
from drivetrain.judge.app import rules, serve
from drivetrain.judge.settings import JudgeSettings
from drivetrain.trainer.batches.batches import BatchRules, samples_of
from drivetrain.trainer.batches.collecting import Turns
from drivetrain.trainer.batches.inbox import Inbox, Memory
from drivetrain.trainer.batches.intake import scores_consumer
from drivetrain.trainer.batches.position import Position
from drivetrain.trainer.samples.samples import Reason, Sample
from drivetrain.trainer.settings.settings import TrainerSettings
from tests import judge_world as world


class Whole:
    """Takes every score for a sample."""

    async def sample(self, scored: TurnScored, sequence: int) -> Sample:
        known = (scored.session, scored.turn, sequence, (1,), (2,), (-0.5,), (0,), 1.0, scored.reward or 0.0)
        return Sample(*known, seen=scored.seen)


class Loop:
    """Two judges and the trainer's intake on one bus; `train` is an optimiser step on what waits."""

    def __init__(self, bus: NatsBus, policy: str, inbox: Inbox, subscription: Subscription) -> None:
        self.bus, self.policy, self.inbox = bus, policy, inbox
        self.subscription = subscription
        self.dropped: list[Reason] = []

    async def put(self, *events: Event) -> None:
        for event in events:
            await self.bus.publish(event)

    def about(self, make: Callable[..., Event], *given: Any, **fields: Any) -> Event:
        """An event of this test's own policy, so that tests may share a server."""
        return make(*given, **{"policy": self.policy, **fields})

    async def take_in(self, count: int) -> None:
        """Wait until the trainer has looked at so many more scores."""
        async with asyncio.timeout(30):
            while count > 0:
                for delivery in await self.subscription.fetch(count, 1.0):
                    await self.inbox.receive(delivery)
                    count -= 1

    async def train(self) -> dict[str, float]:
        batch = self.inbox.take()
        for unit in batch:
            self.inbox.memory.trained[unit.key] = 1
            for sequence in unit.sequences:
                self.inbox.memory.position.settle(sequence)
        await self.inbox.finish(batch)
        return {sample.turn: sample.reward for sample in samples_of(batch)}

    async def scores(self) -> dict[tuple[str, int], float | None]:
        stored = await self.bus.last("SCORES", f"turn.scored.*.{self.policy}.>")
        return {(s.event.turn, s.event.n): s.event.reward for s in stored if isinstance(s.event, TurnScored)}


@pytest.fixture
async def loop(nats_url: str) -> AsyncIterator[Loop]:
    policy = f"p{uuid4().hex[:12]}"
    async with _bus(nats_url) as bus, _bus(nats_url) as second, asyncio.TaskGroup() as group:
        lives = [world.Life(group), world.Life(group)]
        settings = JudgeSettings(turn_wait_s=5.0)
        for life, own in zip(lives, (bus, second), strict=True):
            serve(life, settings, own, rules(settings))
        trainer = TrainerSettings(policy=policy, model="m", store=Path("s"))
        async with bus.consume(scores_consumer(trainer)) as subscription:
            dropped: list[Reason] = []
            unread: Any = Whole()
            rules_of = BatchRules(100, 1, 0.0, 4)
            memory = Memory(Position(), {})
            inbox = Inbox(bus, Turns(unread), rules_of, memory, lambda reason, count: dropped.append(reason))
            made = Loop(bus, policy, inbox, subscription)
            made.dropped = dropped
            yield made
        for life in lives:
            life.end()


@asynccontextmanager
async def _bus(url: str) -> AsyncIterator[NatsBus]:
    bus = await connect(BusSettings(url=url))
    yield bus
    await bus.close()


async def test_feedback_after_the_update_is_a_revision_that_is_stored_and_late(loop: Loop) -> None:
    late = world.feedback("f1", value=1.0, turn="t", policy=loop.policy)
    await loop.put(loop.about(world.recorded, "t"), loop.about(world.followed, "t", world.user("Too long.")))
    await loop.take_in(1)
    assert await loop.train() == {"t": -1.0}
    await loop.put(late)
    await loop.take_in(1)
    assert await loop.scores() == {("t", 0): -1.0, ("t", joins.revision_of(late)): 1.0}
    assert (await loop.train(), loop.dropped) == ({}, [Reason.LATE])


async def test_feedback_before_the_update_takes_the_place_of_what_waits(loop: Loop) -> None:
    await loop.put(loop.about(world.recorded, "t"), loop.about(world.followed, "t", world.user("Too long.")))
    await loop.take_in(1)
    await loop.put(world.feedback("f1", value=1.0, turn="t", policy=loop.policy))
    await loop.take_in(1)
    assert (await loop.train(), loop.dropped) == ({"t": 1.0}, [Reason.SUPERSEDED])


async def test_feedback_on_an_older_turn_changes_that_turn_alone(loop: Loop) -> None:
    for number, said in enumerate(("Thanks!", "Too long.", "Perfect, thanks!")):
        await loop.put(loop.about(world.recorded, f"t{number}", number))
        await loop.put(loop.about(world.followed, f"t{number}", world.user(said)))
    await loop.take_in(3)
    await loop.put(world.feedback("f", text="That was useless.", turn="t0", policy=loop.policy))
    await loop.take_in(1)
    assert await loop.train() == {"t0": -1.0, "t1": -1.0, "t2": 1.0}


async def test_an_outcome_after_the_votes_is_a_revision_of_every_turn(loop: Loop) -> None:
    ref = RolloutRef(run=loop.policy, group="g", rollout="r1", group_size=2)
    for number in range(2):
        turn = f"t{number}"
        failed = world.tool("bash: x: command not found")
        await loop.put(loop.about(world.recorded, turn, number, rollout=ref))
        await loop.put(loop.about(world.followed, turn, failed, rollout=ref))
    await loop.take_in(2)
    outcome = world.outcome(0.5, policy=loop.policy, rollout=ref)
    await loop.put(outcome)
    await loop.take_in(2)
    assert await loop.train() == {"t0": 0.5, "t1": 0.5}
    assert loop.dropped == [Reason.SUPERSEDED] * 2
    (result,) = [stored.event for stored in await loop.bus.last("SCORES", f"rollout.scored.{loop.policy}.>")]
    assert isinstance(result, RolloutScored)
    assert (result.outcome, result.turns, result.rollout, result.judge) == (0.5, ["t0", "t1"], ref, "rules")


async def test_a_copy_of_a_signal_makes_no_revision(loop: Loop) -> None:
    signal = world.feedback("f1", value=1.0, turn="t", policy=loop.policy)
    await loop.put(loop.about(world.recorded, "t"), signal)
    await loop.take_in(1)
    assert await loop.bus.publish(signal) is None
    await loop.put(world.feedback("f2", value=-1.0, turn="t", at=10.0, policy=loop.policy))
    await loop.take_in(1)
    assert sorted((await loop.scores()).values(), key=str) == [-1.0, 1.0]
    assert await loop.train() == {"t": -1.0}
