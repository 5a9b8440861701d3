"""The service: takes candidates one by one, rolls each out, decides, and keeps every replica at what is promoted."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from drivetrain.common.bus.base import Bus, BusError, Consumer, Delivery
from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.events import Event, WeightsCandidate, WeightsHeld, WeightsLoaded, WeightsPromoted
from drivetrain.common.store.checkpoints import BadCheckpoint, Probe
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.weights import metrics
from drivetrain.weights.care import bring_up_to_date
from drivetrain.weights.engines.base import Weights
from drivetrain.weights.registry import Registry
from drivetrain.weights.replica import Replica
from drivetrain.weights.rollout import Hold, Outcome, Promote, Proved, Rejected, verdict
from drivetrain.weights.source import Source

log = get_logger("weights")

PUBLISH_ATTEMPTS = 60


class WeightsService:
    """Owns the replicas of one policy. `clock` is unix time."""

    def __init__(
        self,
        bus: Bus,
        source: Source,
        replicas: Sequence[Replica],
        retry_s: float,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.registry = Registry()
        self._bus, self._source, self._replicas = bus, source, replicas
        self._retry_s, self._clock, self._sleep = retry_s, clock, sleep
        self._policy = source.policy
        # Held while replicas are touched: the periodic look must not undo a rollout in progress
        self._touching = asyncio.Lock()

    @property
    def consumer(self) -> Consumer:
        """One candidate at a time, in the order of their announcement, also after a restart."""
        subject = f"weights.candidate.{self._policy}.>"
        durable = f"weights-{self._policy}"
        return Consumer("WEIGHTS", durable, (subject,), ack_wait_s=60, max_deliver=100, max_ack_pending=1)

    @property
    def serving(self) -> bool:
        """Whether at least one replica serves what is promoted."""
        return any(replica.up for replica in self._replicas)

    async def recover(self) -> None:
        """Find the promoted version again: the newest in the store whose promotion is on the bus; none means 0."""
        for version in reversed(await asyncio.to_thread(self._source.versions)):
            if await self._bus.get("WEIGHTS", f"weights.promoted.{self._policy}.{version}"):
                self.registry = Registry(promoted=version)
                break
        metrics.PROMOTED.set(self.registry.promoted)
        log.info("recovered", promoted=self.registry.promoted)

    async def reconcile(self) -> None:
        """Look at every replica and bring those up to date that do not serve the promoted version."""
        async with self._touching:
            await self._reconcile()

    async def on_candidate(self, delivery: Delivery) -> None:
        """Decide one candidate: promoted or held, published before this returns. It waits while no replica answers."""
        event = delivery.event
        if not isinstance(event, WeightsCandidate):
            raise Unprocessable(f"{delivery.subject} is no candidate")
        if await self._decided(event.version):
            return
        self.registry = self.registry.announce(event.version, event.parent)
        if objection := self.registry.objection(event.version):
            await self._hold(event.version, objection)
            return
        try:
            weights, probe = await asyncio.to_thread(self._source.verified, event.version, event.digest)
        except BadCheckpoint as error:
            await self._hold(event.version, str(error))
            return
        self.registry = self.registry.begin(event.version)
        await self._roll_out(weights, probe)

    async def _decided(self, version: int) -> bool:
        """Whether a decision was published before, by this process or an earlier one."""
        kinds = ("promoted", "held")
        found = [await self._bus.get("WEIGHTS", f"weights.{kind}.{self._policy}.{version}") for kind in kinds]
        return any(found)

    async def _roll_out(self, weights: Weights, probe: Probe) -> None:
        while True:
            async with self._touching:
                decision = verdict(await self._offer(weights, probe))
                if isinstance(decision, Promote):
                    await self._promote(weights.version, decision.replicas)
                    return
                if isinstance(decision, Hold):
                    await self._hold(weights.version, decision.reason)
                    await self._reconcile()
                    return
            log.error("no replica answers, the candidate waits", version=weights.version, reason=decision.reason)
            await self._sleep(self._retry_s)

    async def _offer(self, weights: Weights, probe: Probe) -> list[Outcome]:
        """One replica after another, so that the others serve meanwhile; a rejection ends it."""
        outcomes: list[Outcome] = []
        for replica in self._replicas:
            outcome = await replica.bring(weights, probe)
            outcomes.append(outcome)
            if isinstance(outcome, Rejected):
                break
            if isinstance(outcome, Proved):
                await self._loaded(weights.version, outcome)
            else:
                replica.mark(up=False, why=outcome.reason)
        return outcomes

    async def _promote(self, version: int, replicas: Sequence[str]) -> None:
        await self._publish(
            WeightsPromoted(policy=self._policy, version=version, replicas=list(replicas), at=self._clock())
        )
        self.registry = self.registry.promote(version)
        metrics.PROMOTED.set(version)
        metrics.DECISIONS.labels("promoted").inc()
        for replica in self._replicas:
            replica.mark(replica.name in replicas, why=f"version {version} was promoted without it")
        log.info("promoted", version=version, replicas=list(replicas))

    async def _hold(self, version: int, reason: str) -> None:
        await self._publish(WeightsHeld(policy=self._policy, version=version, reason=reason, at=self._clock()))
        self.registry = self.registry.hold(version, reason)
        metrics.DECISIONS.labels("held").inc()
        log.error("held", version=version, reason=reason)

    async def _reconcile(self) -> None:
        for replica in self._replicas:
            outcome = await bring_up_to_date(replica, self.registry.promoted, self._source)
            if isinstance(outcome, Proved):
                await self._loaded(self.registry.promoted, outcome)

    async def _loaded(self, version: int, proved: Proved) -> None:
        log.info("loaded", version=version, replica=proved.replica, seconds=round(proved.seconds, 2), gap=proved.gap)
        event = WeightsLoaded(
            policy=self._policy,
            version=version,
            replica=proved.replica,
            seconds=proved.seconds,
            probe_gap=proved.gap,
            at=self._clock(),
        )
        await self._publish(event)

    async def _publish(self, event: Event) -> None:
        """Store a decision; the bus may be away for a while.

        Raises:
            BusError: it stayed away.
        """
        for _ in range(PUBLISH_ATTEMPTS - 1):
            try:
                await self._bus.publish(event)
            except BusError as error:
                log.warning("the bus refused, trying again", what=type(event).__name__, reason=str(error))
                await self._sleep(self._retry_s)
            else:
                return
        await self._bus.publish(event)
