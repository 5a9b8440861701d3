"""Scores on their way into a batch: every delivery is kept open until its unit is trained and stored, or dropped."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from drivetrain.common.bus import Bus, Delivery
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.trainer.batches.batches import Batches, BatchRules, Drop, Staleness, Unit, samples_of
from drivetrain.trainer.batches.collecting import Collector, Foreign
from drivetrain.trainer.batches.position import Position
from drivetrain.trainer.checkpoints.plan import Entry, Plan
from drivetrain.trainer.samples.samples import Reason, Unusable

log = get_logger("trainer")


@dataclass(frozen=True)
class Memory:
    """What must not be trained again: settled messages, and units trained lately with the step that did it. `judge` is
    the one whose scores are trained; `reads` names the messages that the position settles, by judge and kind."""

    position: Position
    trained: dict[str, int]
    judge: str = "rules"
    reads: str = "rules"

    def remember(self, batch: Sequence[Unit], step: int, for_steps: int) -> None:
        """From now on the batch counts as trained; entries of more than `for_steps` ago cannot come back and are
        forgotten."""
        keys = [*(sample.key for sample in samples_of(batch)), *(unit.key for unit in batch)]
        self.trained.update(dict.fromkeys(keys, step))
        for key in [key for key, at in self.trained.items() if step - at >= max(1, for_steps)]:
            del self.trained[key]
        for sequence in (sequence for unit in batch for sequence in unit.sequences):
            self.position.settle(sequence)


class Inbox:
    """Waiting units and their open deliveries. `on_drop` is told of everything that will not be trained."""

    def __init__(
        self,
        bus: Bus,
        collector: Collector,
        rules: BatchRules,
        memory: Memory,
        on_drop: Callable[[Reason, int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.memory = memory
        self.changed = asyncio.Event()
        self._bus = bus
        self._collector = collector
        self._batches = Batches(rules)
        self._on_drop = on_drop
        self._clock = clock
        self._open: dict[int, Delivery] = {}
        self._subjects: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._batches)

    async def receive(self, delivery: Delivery) -> None:
        """Take in one delivery: it joins a waiting unit, or is acknowledged and counted."""
        sequence = delivery.sequence
        if sequence in self.memory.position:
            await self._refuse(delivery, Reason.REDELIVERED)
            return
        self.memory.position.delivered(sequence, delivery.attempt)
        if sequence in self._subjects:  # it waits or is being trained; the newer delivery is the one to acknowledge
            self._open[sequence] = delivery
            return
        try:
            key, judge = self._collector.key(delivery.event)
        except Foreign as error:
            await delivery.dead(str(error))
            return
        if judge != self.memory.judge or key in self.memory.trained:
            await self._refuse(delivery, Reason.LATE if judge == self.memory.judge else Reason.OTHER_JUDGE)
            return
        await self._take_in(delivery)

    async def _take_in(self, delivery: Delivery) -> None:
        sequence = delivery.sequence
        self._open[sequence], self._subjects[sequence] = delivery, delivery.subject
        try:
            await self._collector.take_in(delivery.event, sequence, self._clock())
        except Unusable as unusable:
            del self._open[sequence], self._subjects[sequence]
            log.debug("score not trained", subject=delivery.subject, reason=str(unusable))
            await self._refuse(delivery, unusable.reason)
            return
        await self._gather()
        self.changed.set()

    async def _gather(self) -> None:
        """Queue the units that are complete."""
        units, drops = self._collector.ready(self._clock())
        for unit in units:
            drops += self._batches.add(unit, self._clock())
        await self._drop(drops)

    async def expire(self, staleness: Staleness) -> None:
        """Queue what has waited long enough for others; drop what the weights in training must not learn from."""
        await self._gather()
        await self._drop(self._batches.expire(staleness))

    def take(self) -> list[Unit]:
        """The next batch, empty while none is due. Its deliveries stay open until `finish` or `discard`."""
        return self._batches.take(self._clock())

    def due_in(self) -> float | None:
        """Seconds until something falls due without another score."""
        waits = (self._batches.due_in(self._clock()), self._collector.due_in(self._clock()))
        return min((wait for wait in waits if wait is not None), default=None)

    def plan(self, batch: Sequence[Unit], parent: int) -> Plan:
        """What it takes to train this batch again after a crash."""
        units = [[Entry(sequence, self._subjects[sequence]) for sequence in unit.sequences] for unit in batch]
        return Plan(parent, self.memory.reads, units)

    async def again(self, plan: Plan) -> list[Unit]:
        """The planned batch, to be trained whether or not its scores were delivered again; see `planned`."""
        batch = await self.planned(plan)
        if batch:
            self._subjects |= {entry.sequence: entry.subject for unit in plan.units for entry in unit}
        return batch

    async def planned(self, plan: Plan) -> list[Unit]:
        """A batch as it was planned; empty, and logged, if one of its scores is not in the stream any more or cannot be
        used.

        Raises:
            BusError: the bus is away.
        """
        batch = []
        for entries in plan.units:
            stored = [await self._bus.get("SCORES", entry.subject) for entry in entries]
            events = [(found.event, found.sequence) for found in stored if found is not None]
            if [sequence for _, sequence in events] != [entry.sequence for entry in entries]:
                log.warning("a planned batch is given up", why="a score is not in the stream any more")
                return []
            try:
                batch.append(await self._collector.rebuild(events))
            except Unusable as unusable:
                log.warning("a planned batch is given up", why=str(unusable))
                return []
        return batch

    async def finish(self, batch: Sequence[Unit]) -> None:
        """Acknowledge a batch whose checkpoint is stored; the memory already holds it."""
        for unit in batch:
            for sequence in unit.sequences:
                del self._subjects[sequence]
                if delivery := self._open.pop(sequence, None):
                    await delivery.ack()

    async def discard(self, batch: Sequence[Unit], reason: Reason) -> None:
        """Acknowledge a batch that will never be trained."""
        await self._drop([Drop(unit, reason) for unit in batch])

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
            self._on_drop(drop.reason, max(1, len(drop.unit.samples)))
            for sequence in drop.unit.sequences:
                del self._subjects[sequence]
                self.memory.position.settle(sequence)
                if delivery := self._open.pop(sequence, None):
                    await delivery.ack()

    async def _refuse(self, delivery: Delivery, reason: Reason) -> None:
        self._on_drop(reason, 1)
        self.memory.position.settle(delivery.sequence)
        await delivery.ack()
