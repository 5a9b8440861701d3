"""A judge on the in-memory bus, and the events that it is given."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from drivetrain.common.bus import MemoryBus
from drivetrain.common.events import (
    DeadLetter,
    Event,
    Message,
    RolloutRef,
    RolloutScored,
    Sampling,
    Signal,
    TurnFollowed,
    TurnRecorded,
    TurnScored,
    decode,
)
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.tokens import pack_ids, pack_logprobs
from drivetrain.judge.app import serve
from drivetrain.judge.asking.asker import Asker
from drivetrain.judge.settings import JudgeSettings
from drivetrain.judge.sources.base import Source
from drivetrain.judge.sources.environment import Environment
from drivetrain.judge.sources.feedback import Feedback
from drivetrain.judge.sources.outcome import Outcome
from drivetrain.judge.sources.reaction import Reaction

WHO: dict[str, Any] = {"tenant": "acme", "policy": "p", "session": "s"}
RULES: tuple[Source, ...] = (Feedback(), Outcome(), Environment(), Reaction())
ROLLOUT = RolloutRef(run="r", group="g", rollout="r1", group_size=2)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def tool(text: str) -> Message:
    return {"role": "tool", "tool_call_id": "c", "content": text}


def recorded(turn: str, at: float = 1.0, **changes: Any) -> TurnRecorded:
    values: dict[str, Any] = {
        **WHO,
        "turn": turn,
        "parent": None,
        "prompt_ids": pack_ids([1]),
        "response_ids": pack_ids([2]),
        "logprobs": pack_logprobs([-0.5]),
        "versions": [],
        "sampling": Sampling(),
        "finish": "stop",
        "exact": True,
        "messages": [user("What is rain?")],
        "reply": {"role": "assistant", "content": "- water"},
        "started_at": at,
        "finished_at": at + 0.5,
    }
    return TurnRecorded(**{**values, **changes})


def followed(turn: str, *messages: Message, n: int = 0, **changes: Any) -> TurnFollowed:
    turn_of = recorded(turn)
    values = {
        **WHO,
        "turn": turn,
        "n": n,
        "messages": list(messages),
        "before": turn_of.messages,
        "reply": turn_of.reply,
    }
    return TurnFollowed(**{**values, "at": 2.0, **changes})


def feedback(number: str, value: float | None = None, text: str = "", **changes: Any) -> Signal:
    values = {**WHO, "id": number, "value": value, "text": text, "at": 9.0}
    return Signal(kind="feedback", **{**values, **changes})


def outcome(value: float | None, **changes: Any) -> Signal:
    values = {**WHO, "id": "o", "value": value, "rollout": ROLLOUT, "reason": "success", "at": 9.0}
    return Signal(kind="outcome", **{**values, **changes})


class Bench:
    """A judge on a bus of its own."""

    def __init__(self, bus: MemoryBus) -> None:
        self.bus = bus

    def acknowledged(self, stream: str, count: int) -> bool:
        """Whether so many messages of a stream are done with, by all replicas together."""
        return sum(len(state.done) for (name, _), state in self.bus._states.items() if name == stream) >= count

    async def put(self, *events: Event) -> None:
        for event in events:
            await self.bus.publish(event)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not done():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    async def scores(self, count: int) -> dict[tuple[str, int], TurnScored]:
        """The scores by turn and revision, once there are so many."""
        await self.until(lambda: sum(r.subject.startswith("turn.") for r in self.bus.streams["SCORES"]) >= count)
        events = [stored.event for stored in await self.bus.last("SCORES", "turn.scored.>")]
        return {(e.turn, e.n): e for e in events if isinstance(e, TurnScored)}

    async def score(self, turn: str, n: int) -> TurnScored:
        """One revision of the score of a turn, once it is there."""
        subject = f".{turn}.rules.{n}"
        await self.until(lambda: any(r.subject.endswith(subject) for r in self.bus.streams["SCORES"]))
        return (await self.scores(1))[turn, n]

    def rewards(self) -> dict[str, float | None]:
        """The reward of each turn that holds: of the score that saw most, then of the latest."""
        records = [r for r in self.bus.streams["SCORES"] if r.subject.startswith("turn.")]
        events = sorted((decode(r.payload, TurnScored) for r in records), key=lambda event: event.seen)
        return {event.turn: event.reward for event in events}

    def results(self) -> list[RolloutScored]:
        """What the rollouts came to, revision after revision."""
        records = [r for r in self.bus.streams["SCORES"] if r.subject.startswith("rollout.")]
        return sorted((decode(r.payload, RolloutScored) for r in records), key=lambda event: event.n)

    async def rollout(self, n: int = 0) -> RolloutScored:
        """What the one rollout came to, in the revision that holds, once there is one of at least this number."""
        await self.until(lambda: any(event.n >= n for event in self.results()))
        return self.results()[-1]

    async def letter(self) -> DeadLetter:
        await self.until(lambda: bool(self.bus.streams["DEAD"]))
        event = (await self.bus.last("DEAD", "dead.>"))[0].event
        assert isinstance(event, DeadLetter)
        return event


class Life(Lifecycle):
    """A life that ends at once: its consumers are cancelled while they wait."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        super().__init__(group)
        self.parts: list[asyncio.Task[None]] = []

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        self.parts.append(super().spawn(work, name))
        return self.parts[-1]

    def end(self) -> None:
        self.stop()
        for part in self.parts:
            part.cancel()


@asynccontextmanager
async def bench(
    shards: int = 1,
    replicas: int = 1,
    extra: tuple[Source, ...] = (),
    chosen: Sequence[Source] = RULES,
    asker: Asker | None = None,
    **settings: Any,
) -> AsyncIterator[Bench]:
    """A judge of so many replicas; with an `asker` it ranks groups."""
    bus = MemoryBus(shards=shards)
    values = {"turn_wait_s": 0.2, **({"model": asker.settings, "ranking": {"enabled": True}} if asker else {})}
    known = JudgeSettings.model_validate({**values, **settings})
    async with asyncio.TaskGroup() as group:
        lives = [Life(group) for _ in range(replicas)]
        for life in lives:
            serve(life, known, bus, [*chosen, *extra], asker)
        try:
            yield Bench(bus)
        finally:
            for life in lives:
                life.end()
