"""Scores on their way into a batch: every delivery is kept open until its turn is trained and stored, or dropped."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from drivetrain.common.bus import Delivery
from drivetrain.common.events import TurnScored
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.trainer.batches import Batches, BatchRules, Drop, Staleness
from drivetrain.trainer.position import Position
from drivetrain.trainer.samples import Reason, Sample, Unusable
from drivetrain.trainer.scores import Scores

log = get_logger("trainer")


@dataclass(frozen=True)
class Memory:
    """What must not be trained again: settled messages, and turns trained lately with the step that did it. `judge` is
    the one whose scores are trained, and whose messages the position settles."""

    position: Position
    trained: dict[str, int]
    judge: str = "rules"


class Inbox:
    """Waiting samples and their open deliveries. `on_drop` is told of everything that will not be trained."""

    def __init__(
        self,
        scores: Scores,
        rules: BatchRules,
        memory: Memory,
        on_drop: Callable[[Reason], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.memory = memory
        self.changed = asyncio.Event()
        self._scores = scores
        self._batches = Batches(rules)
        self._on_drop = on_drop
        self._clock = clock
        self._open: dict[int, Delivery] = {}

    def __len__(self) -> int:
        return len(self._batches)

    async def receive(self, delivery: Delivery) -> None:
        """Take in one delivery: it becomes a waiting sample, or is acknowledged and counted."""
        sequence, event = delivery.sequence, delivery.event
        if sequence in self.memory.position:
            await self._refuse(delivery, Reason.REDELIVERED)
            return
        self.memory.position.delivered(sequence, delivery.attempt)
        if not isinstance(event, TurnScored):
            await delivery.dead(f"the trainer reads turn.scored events, not {type(event).__name__}")
            return
        if event.judge != self.memory.judge:
            await self._refuse(delivery, Reason.OTHER_JUDGE)
            return
        if f"{event.session}/{event.turn}" in self.memory.trained:
            await self._refuse(delivery, Reason.LATE)
            return
        self._open[sequence] = delivery
        try:
            sample = await self._scores.sample(event, sequence)
        except Unusable as unusable:
            del self._open[sequence]
            log.debug("turn not trained", session=event.session, turn=event.turn, reason=str(unusable))
            await self._refuse(delivery, unusable.reason)
            return
        await self._drop(self._batches.add(sample, self._clock()))
        self.changed.set()

    async def expire(self, staleness: Staleness) -> None:
        """Drop what the weights in training must not learn from any more."""
        await self._drop(self._batches.expire(staleness))

    def take(self) -> list[Sample]:
        """The next batch, empty while none is due. Its deliveries stay open until `finish` or `discard`."""
        return self._batches.take(self._clock())

    def due_in(self) -> float | None:
        """See `Batches.due_in`."""
        return self._batches.due_in(self._clock())

    async def finish(self, batch: Sequence[Sample]) -> None:
        """Acknowledge a batch whose checkpoint is stored; the memory already holds it."""
        for sample in batch:
            await self._open.pop(sample.sequence).ack()

    async def discard(self, batch: Sequence[Sample], reason: Reason) -> None:
        """Acknowledge a batch that will never be trained."""
        await self._drop([Drop(sample, reason) for sample in batch])

    async def keep_alive(self) -> None:
        """Tell the bus that every open delivery is still being worked on."""
        for delivery in list(self._open.values()):
            await delivery.in_progress()

    async def hand_back(self) -> None:
        """Give all open deliveries back, for the next process to train."""
        for delivery in self._open.values():
            await delivery.nak()
        self._open.clear()

    async def _drop(self, drops: Iterable[Drop]) -> None:
        for drop in drops:
            await self._refuse(self._open.pop(drop.sample.sequence), drop.reason)

    async def _refuse(self, delivery: Delivery, reason: Reason) -> None:
        self._on_drop(reason)
        self.memory.position.settle(delivery.sequence)
        await delivery.ack()
