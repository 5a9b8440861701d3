"""The training loop: a batch becomes a step, the step a checkpoint, the checkpoint a candidate; then the batch is
acknowledged. In this order, so that a crash at any point loses nothing and trains nothing twice."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, replace

from drivetrain.common.bus import Delivery
from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.trainer.batches.batches import Unit, samples_of
from drivetrain.trainer.batches.inbox import Inbox
from drivetrain.trainer.checkpoints.checkpoints import Checkpoints, Place, TrainerState
from drivetrain.trainer.checkpoints.plan import Plan
from drivetrain.trainer.checkpoints.publishing import Publisher
from drivetrain.trainer.checkpoints.resuming import Resumer, needed, to_redo
from drivetrain.trainer.learning.learner import Interrupted, Step
from drivetrain.trainer.learning.studio import Studio
from drivetrain.trainer.lineage.fates import Unfollowable, follow
from drivetrain.trainer.lineage.lineage import Lineage
from drivetrain.trainer.samples.samples import Reason, Sample
from drivetrain.trainer.telemetry import Meters

log = get_logger("trainer")


@dataclass(frozen=True)
class Pace:
    """`max_ahead` candidates may await promotion while training goes on; `keep` checkpoints stay. Every `state_every`
    steps a checkpoint holds all that it takes to resume."""

    max_ahead: int
    keep: int
    max_staleness: int
    state_every: int = 1
    idle_s: float = 5.0


class Trainer:
    """Trains one policy. When the lifecycle stops, a step under way is given up."""

    def __init__(
        self,
        inbox: Inbox,
        checkpoints: Checkpoints,
        studio: Studio,
        publisher: Publisher,
        pace: Pace,
        lineage: Lineage,
        meters: Meters,
        lifecycle: Lifecycle,
    ) -> None:
        self.lineage = lineage
        self.loaded = 0
        self._planned: list[Unit] = []
        self.wake = inbox.changed
        self._inbox = inbox
        self._checkpoints = checkpoints
        self._studio = studio
        self._publisher = publisher
        self._resumer = Resumer(checkpoints, studio, inbox, lambda: lifecycle.stopping)
        self._pace = pace
        self._meters = meters
        self._lifecycle = lifecycle

    async def resume(self) -> None:
        """Announce every stored candidate again, load the head of the lineage, and read the batch that a crash cut off.

        Raises:
            BadCheckpoint, BadModel: the head cannot be loaded.
        """
        self._checkpoints.known.write(self.lineage)
        store, policy = self._checkpoints.store, self._checkpoints.policy
        with suppress(Interrupted):
            for version in store.versions(policy):
                if self.lineage.versions[version].fate == "candidate":
                    await self._publisher.announce(store.manifest(policy, version))
            await self._load_head()
            self._planned = await self._interrupted_batch()

    async def _interrupted_batch(self) -> list[Unit]:
        """The batch that a crash cut off, to be trained first and in the same order."""
        plan, memory = self._checkpoints.plan.read(), self._inbox.memory
        if plan is None or plan.reads != memory.reads or self.lineage.staleness(plan.parent) != 0:
            return []
        if any(sequence in memory.position for sequence in plan.sequences):
            return []
        return await self._inbox.again(plan)

    async def run(self) -> None:
        """Train until the service stops, then hand back what was not trained."""
        with suppress(Interrupted):
            while not self._lifecycle.stopping:
                self.wake.clear()
                if not await self.advance():
                    await self._wait()
        await self._inbox.hand_back()

    async def advance(self) -> bool:
        """Train one batch if one is due and training is not paused; says whether it did."""
        await self._load_head()
        await self._inbox.expire(self._staleness)
        self._meters.stands(len(self._inbox), self.loaded, len(self.lineage.awaiting()))
        batch = [] if self.paused else self._next()
        if batch:
            await self._train(batch)
        return bool(batch)

    def _next(self) -> list[Unit]:
        planned, self._planned = self._planned, []
        return planned or self._inbox.take()

    @property
    def paused(self) -> bool:
        """Too many candidates await promotion."""
        return len(self.lineage.awaiting()) > self._pace.max_ahead

    async def on_weights(self, delivery: Delivery) -> None:
        """Follow what became of a version; see `bus.handling` for the acknowledgement."""
        before = self.lineage
        try:
            self._follow(follow(before, delivery.event))
        except Unfollowable as error:
            raise Unprocessable(str(error)) from error
        if self.lineage.head != before.head:
            log.warning("training goes elsewhere", after=delivery.subject, was=before.head, now=self.lineage.head)
        self.wake.set()

    def _follow(self, lineage: Lineage) -> None:
        self.lineage = lineage
        self._checkpoints.known.write(lineage)

    async def _load_head(self) -> None:
        """Get the weights in training to the head; what was redone on the way is a version of its own."""
        if self.loaded == self.lineage.head:
            return
        lineage = self.lineage
        redone = await self._resumer.load(lineage)
        self.loaded = lineage.head
        if redone is not None and self.lineage.head == lineage.head:
            place = Place(lineage.next_version, lineage.head, lineage.step)
            await self._keep(place, None, redone)

    def _staleness(self, sample: Sample) -> int | None:
        """Of the sample's oldest token; None if any token was sampled off the lineage."""
        ages = [self.lineage.staleness(version) for version in set(sample.versions)]
        known = [age for age in ages if age is not None]
        return max(known) if len(known) == len(ages) else None

    async def _train(self, units: list[Unit]) -> None:
        parent, started, batch = self.loaded, time.monotonic(), samples_of(units)
        plan = self._inbox.plan(units, parent)
        await self._publisher.plan(plan)
        self._studio.learner.set_rate(self._studio.rate(self.lineage.step))
        step = await asyncio.to_thread(self._studio.learner.step, batch, parent, lambda: self._lifecycle.stopping)
        result, seconds = "trained", time.monotonic() - started
        if step.skipped:
            result = "skipped"
            log.error("batch skipped", why=step.skipped, turns=[s.key for s in batch], figures=dict(step.metrics))
            await self._inbox.discard(units, Reason.NON_FINITE)
        elif self.lineage.head != parent:
            result, self.loaded = "rejected", -1
            await self._inbox.discard(units, Reason.REJECTED)
        else:
            ages = [self._staleness(sample) or 0 for sample in batch]
            stale = {"staleness_mean": sum(ages) / len(ages), "staleness_max": float(max(ages))}
            step = replace(step, metrics={**step.metrics, **stale})
            await self._store(units, plan, step)
        self._meters.stepped(result, len(batch), step.metrics if result == "trained" else {}, seconds)

    async def _store(self, units: list[Unit], plan: Plan, step: Step) -> None:
        """Keep what a batch made, then acknowledge it."""
        number = self.lineage.step + 1
        start, _ = to_redo(self._checkpoints, self.lineage, self.loaded)
        resumable = number - self.lineage.versions[start].step >= self._pace.state_every
        self._inbox.memory.remember(units, number, self._pace.max_staleness)
        await self._keep(Place(self.lineage.next_version, self.loaded, number, resumable), plan, step)
        await self._inbox.finish(units)

    async def _keep(self, place: Place, plan: Plan | None, step: Step) -> None:
        """Store the weights in training as a version, the head from now on, and announce it."""
        memory = self._inbox.memory
        state = TrainerState(memory.position.intervals, dict(memory.trained), memory.reads, plan)
        manifest = await self._publisher.save(place, state, step)
        self._follow(self.lineage.grow(place.version, place.parent, place.step))
        self.loaded = place.version
        shown = {name: float(f"{value:.4g}") for name, value in step.metrics.items()}
        log.info("step", version=place.version, step=place.step, **shown)
        await self._publisher.announce(manifest)
        self._checkpoints.store.keep_last(manifest.policy, self._pace.keep, needed(self._checkpoints, self.lineage))

    async def _wait(self) -> None:
        """Until something arrives, a batch falls due, or a while has passed."""
        due = None if self.paused else self._inbox.due_in()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wake.wait(), self._pace.idle_s if due is None else min(self._pace.idle_s, due))
