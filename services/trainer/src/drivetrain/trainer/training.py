"""The training loop: a batch becomes a step, the step a checkpoint, the checkpoint a candidate; then the batch is
acknowledged. In this order, so that a crash at any point loses nothing and trains nothing twice."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from drivetrain.common.bus import Bus, BusError, Delivery
from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.events import WeightsCandidate
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.store import Manifest, Probe
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.trainer.batches.batches import Unit, samples_of
from drivetrain.trainer.batches.inbox import Inbox
from drivetrain.trainer.checkpoints.checkpoints import Checkpoints, TrainerState
from drivetrain.trainer.learning.learner import Interrupted, Learner, Step
from drivetrain.trainer.lineage.fates import Unfollowable, follow
from drivetrain.trainer.lineage.lineage import Lineage
from drivetrain.trainer.model.policy import CausalPolicy
from drivetrain.trainer.samples.samples import Reason, Sample
from drivetrain.trainer.telemetry import Meters

log = get_logger("trainer")


@dataclass(frozen=True)
class Pace:
    """`max_ahead` candidates may await promotion while training goes on; `keep` checkpoints stay. What fails for want
    of disk space or of the bus is tried again after `retry_s`."""

    max_ahead: int
    keep: int
    max_staleness: int
    retry_s: float = 5.0
    idle_s: float = 5.0


@dataclass(frozen=True)
class Studio:
    """The model with what trains it: `fresh` loads the base model anew, `probe_ids` are the manifest's probe, `rate` is
    the learning rate of each step of the lineage."""

    model: CausalPolicy
    learner: Learner
    fresh: Callable[[], CausalPolicy]
    probe_ids: Sequence[int]
    rate: Callable[[int], float]


class Trainer:
    """Trains one policy. When the lifecycle stops, a step under way is given up."""

    def __init__(
        self,
        bus: Bus,
        inbox: Inbox,
        checkpoints: Checkpoints,
        studio: Studio,
        lineage: Lineage,
        pace: Pace,
        meters: Meters,
        lifecycle: Lifecycle,
    ) -> None:
        self.lineage = lineage
        self.loaded = 0
        self._planned: list[Unit] = []
        self.wake = inbox.changed
        self._bus = bus
        self._inbox = inbox
        self._checkpoints = checkpoints
        self._studio = studio
        self._pace = pace
        self._meters = meters
        self._lifecycle = lifecycle

    async def resume(self) -> None:
        """Load the head of the lineage and announce every stored candidate again; one announced before is not stored
        twice.

        Raises:
            BadCheckpoint, BadModel: the head cannot be loaded.
        """
        self._checkpoints.write_lineage(self.lineage)
        await self._load_head()
        store, policy = self._checkpoints.store, self._checkpoints.policy
        for version in store.versions(policy):
            if self.lineage.versions[version].fate == "candidate":
                await self._announce(store.manifest(policy, version))
        self._planned = await self._interrupted_batch()

    async def _interrupted_batch(self) -> list[Unit]:
        """The batch that a crash cut off, to be trained first and in the same order."""
        plan, memory = self._checkpoints.read_plan(), self._inbox.memory
        if plan is None or plan.reads != memory.reads or plan.parent != self.lineage.head:
            return []
        if any(sequence in memory.position for sequence in plan.sequences):
            return []
        return await self._inbox.again(plan)

    async def run(self) -> None:
        """Train until the service stops, then hand back what was not trained."""
        while not self._lifecycle.stopping:
            self.wake.clear()
            if not await self.advance():
                await self._wait()
        await self._inbox.hand_back()

    async def advance(self) -> bool:
        """Train one batch if one is due and training is not paused; says whether it did."""
        await self._load_head()
        await self._inbox.expire(self._staleness)
        self._report()
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
            self.lineage = follow(before, delivery.event)
        except Unfollowable as error:
            raise Unprocessable(str(error)) from error
        if self.lineage.head != before.head:
            log.warning("training goes elsewhere", after=delivery.subject, was=before.head, now=self.lineage.head)
        self._checkpoints.write_lineage(self.lineage)
        self.wake.set()

    async def _load_head(self) -> None:
        head = self.lineage.head
        if self.loaded == head:
            return
        model, optimizer = self._studio.model, self._studio.learner.optimizer
        if head == 0:
            base = await asyncio.to_thread(self._studio.fresh)
            model.load_trainable(base.trainable())
            optimizer.state.clear()
        else:
            await asyncio.to_thread(self._checkpoints.restore, head, model, optimizer)
        self.loaded = head
        log.info("weights loaded", version=head, step=self.lineage.step)

    def _staleness(self, sample: Sample) -> int | None:
        """Of the sample's oldest token; None if any token was sampled off the lineage."""
        ages = [self.lineage.staleness(version) for version in set(sample.versions)]
        known = [age for age in ages if age is not None]
        return max(known) if len(known) == len(ages) else None

    async def _train(self, units: list[Unit]) -> None:
        version, started, batch = self.loaded, time.monotonic(), samples_of(units)
        if not await self._planned_for(units, version):
            return
        self._studio.learner.set_rate(self._studio.rate(self.lineage.step))
        try:
            step = await asyncio.to_thread(self._studio.learner.step, batch, version, lambda: self._lifecycle.stopping)
        except Interrupted:
            return
        seconds = time.monotonic() - started
        if step.skipped:
            log.error("batch skipped", why=step.skipped, turns=[s.key for s in batch], figures=dict(step.metrics))
            await self._inbox.discard(units, Reason.NON_FINITE)
            self._meters.stepped("skipped", len(batch), {}, seconds)
        elif self.lineage.head != version:
            self.loaded = -1
            await self._inbox.discard(units, Reason.REJECTED)
            self._meters.stepped("rejected", len(batch), {}, seconds)
        else:
            ages = [self._staleness(sample) or 0 for sample in batch]
            stale = {"staleness_mean": sum(ages) / len(ages), "staleness_max": float(max(ages))}
            step = replace(step, metrics={**step.metrics, **stale})
            self._meters.stepped("trained", len(batch), step.metrics, seconds)
            await self._store(units, step)

    async def _planned_for(self, units: Sequence[Unit], parent: int) -> bool:
        """Store what is about to be trained; a full disk is waited for. False when the service stops meanwhile."""
        plan = self._inbox.plan(units, parent)
        while True:
            try:
                await asyncio.to_thread(self._checkpoints.write_plan, plan)
            except OSError as error:
                log.error("plan not stored, trying again", why=str(error))
            else:
                return True
            if not await self._pause():
                return False

    async def _store(self, batch: Sequence[Unit], step: Step) -> None:
        version, parent, number = self.lineage.next_version, self.loaded, self.lineage.step + 1
        self._remember(batch, number)
        manifest = await self._saved(version, parent, number, step)
        if manifest is None:
            return
        self.lineage = self.lineage.grow(version, parent, number)
        self._checkpoints.write_lineage(self.lineage)
        self.loaded = version
        log.info("step", version=version, step=number, **{name: float(f"{v:.4g}") for name, v in step.metrics.items()})
        if await self._announce(manifest):
            await self._inbox.finish(batch)
        pinned = {self.lineage.head, self.lineage.promoted, *self.lineage.awaiting()}
        self._checkpoints.store.keep_last(self._checkpoints.policy, self._pace.keep, pinned)

    def _remember(self, batch: Sequence[Unit], number: int) -> None:
        """From now on the batch counts as trained; entries too old to come back are forgotten."""
        memory = self._inbox.memory
        memory.trained.update({sample.key: number for sample in samples_of(batch)})
        memory.trained.update({unit.key: number for unit in batch})
        for key in [key for key, at in memory.trained.items() if number - at >= max(1, self._pace.max_staleness)]:
            del memory.trained[key]
        for unit in batch:
            for sequence in unit.sequences:
                memory.position.settle(sequence)

    async def _saved(self, version: int, parent: int, number: int, step: Step) -> Manifest | None:
        """The stored checkpoint; a full disk is waited for. None when the service stops meanwhile."""
        memory = self._inbox.memory
        state = TrainerState(memory.position.intervals, dict(memory.trained), memory.reads)
        while True:
            started = time.monotonic()
            try:
                manifest = await asyncio.to_thread(self._save, version, parent, number, state, step)
            except OSError as error:
                log.error("checkpoint not stored, trying again", version=version, why=str(error))
            else:
                self._meters.saved(time.monotonic() - started)
                return manifest
            if not await self._pause():
                return None

    def _save(self, version: int, parent: int, number: int, state: TrainerState, step: Step) -> Manifest:
        studio = self._studio
        probe = Probe(list(studio.probe_ids), studio.model.probe(studio.probe_ids))
        place = (version, parent, number)
        optimizer = studio.learner.optimizer
        return self._checkpoints.save(studio.model, optimizer, state, place, probe, step.metrics, time.time())

    async def _announce(self, manifest: Manifest) -> bool:
        """Publish a candidate, once; waits for the bus. False when the service stops meanwhile."""
        candidate = candidate_of(manifest, time.time())
        while True:
            try:
                await self._bus.publish(candidate)
            except BusError as error:
                log.error("candidate not announced, trying again", version=manifest.version, why=str(error))
            else:
                return True
            if not await self._pause():
                return False

    async def _pause(self) -> bool:
        """Wait before trying again; False at once when the service is to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._lifecycle.until_stopped(), self._pace.retry_s)
        return not self._lifecycle.stopping

    async def _wait(self) -> None:
        """Until something arrives, a batch falls due, or a while has passed."""
        due = None if self.paused else self._inbox.due_in()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wake.wait(), self._pace.idle_s if due is None else min(self._pace.idle_s, due))

    def _report(self) -> None:
        self._meters.waiting.set(len(self._inbox))
        self._meters.version.set(self.loaded)
        self._meters.awaiting.set(len(self.lineage.awaiting()))


def candidate_of(manifest: Manifest, now: float) -> WeightsCandidate:
    """The announcement of a stored checkpoint."""
    return WeightsCandidate(
        policy=manifest.policy,
        version=manifest.version,
        at=now,
        parent=manifest.parent,
        digest=manifest.digest(),
        step=manifest.step,
        metrics=manifest.metrics,
    )
