"""The service: takes candidates one by one, rolls each out, decides, and keeps every replica at what is promoted."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from drivetrain.common.bus.base import Bus, Consumer, Delivery
from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.errors import CannotStart
from drivetrain.common.events import WeightsCandidate, WeightsRollback
from drivetrain.common.store.checkpoints import Probe
from drivetrain.common.store.errors import BadCheckpoint, NoSpace, StoreError
from drivetrain.common.store.lives import State, read_lives
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.weights import metrics
from drivetrain.weights.care import bring_up_to_date
from drivetrain.weights.decisions import Decisions
from drivetrain.weights.engines.base import Weights
from drivetrain.weights.registry import IllegalTransition, Registry
from drivetrain.weights.replica import Replica
from drivetrain.weights.rollout import Hold, Outcome, Promote, Proved, Rejected, verdict
from drivetrain.weights.source import Source

log = get_logger("weights")


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
        self._retry_s, self._sleep = retry_s, sleep
        self._policy = source.policy
        self._decisions = Decisions(bus, source.policy, retry_s, clock, sleep)
        # Held while replicas are touched: the periodic look must not undo a rollout in progress
        self._touching = asyncio.Lock()

    @property
    def consumer(self) -> Consumer:
        """One candidate at a time, in the order of their announcement, also after a restart."""
        subject = f"weights.candidate.{self._policy}.>"
        durable = f"weights-{self._policy}"
        return Consumer("WEIGHTS", durable, (subject,), ack_wait_s=60, max_deliver=100, max_ack_pending=1)

    @property
    def rollbacks(self) -> Consumer:
        """Requests to go back, beside the candidates, so that none waits behind a candidate that waits for replicas."""
        subject = f"weights.rollback.{self._policy}.>"
        durable = f"weights-{self._policy}-rollback"
        return Consumer("WEIGHTS", durable, (subject,), ack_wait_s=60, max_deliver=100, max_ack_pending=1)

    @property
    def serving(self) -> bool:
        """Whether at least one replica serves what is promoted."""
        return any(replica.up for replica in self._replicas)

    async def recover(self) -> None:
        """Find the promoted version again, as the bus tells it. If its weights are gone, the newest one promoted whose
        weights are there; if there is none, 0.

        Raises:
            CannotStart: only the archive could have them, and it does not answer: what serves is left as it is.
        """
        lives = await read_lives(self._bus, self._policy)
        serves = lives.promoted
        try:
            if not await self._source.has(serves):
                there = set(await self._source.versions())
                promoted = [v.number for v in lives.versions.values() if v.state is State.PROMOTED]
                serves = max(there.intersection(promoted), default=0)
        except StoreError as error:
            raise CannotStart(f"version {serves} serves and is not in the trainer's folder; {error}") from error
        self.registry = Registry(serves, lives.versions)
        metrics.PROMOTED.set(serves)
        log.info("recovered", promoted=serves)

    async def reconcile(self) -> None:
        """Look at every replica and bring those up to date that do not serve the promoted version."""
        async with self._touching:
            await self._reconcile()

    async def on_candidate(self, delivery: Delivery) -> None:
        """Decide one candidate: promoted or held, published before this returns. It waits while no replica answers."""
        event = delivery.event
        if not isinstance(event, WeightsCandidate):
            raise Unprocessable(f"{delivery.subject} is no candidate")
        if await self._decisions.made(event.version):
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

    async def on_rollback(self, delivery: Delivery) -> None:
        """Serve an earlier version again, and withdraw what was promoted after it. The weights are made sure of before
        anything is published; a replica that fails is brought there later, like any other.

        Raises:
            Unprocessable: it cannot be done; the reason says why.
        """
        event = delivery.event
        if not isinstance(event, WeightsRollback):
            raise Unprocessable(f"{delivery.subject} is no request for a rollback")
        async with self._touching:
            try:
                withdrawn = self.registry.withdrawn_by(event.version)
                await self._source.served(event.version)
            except (IllegalTransition, BadCheckpoint, StoreError, NoSpace) as error:
                log.error("rollback refused", version=event.version, reason=str(error))
                raise Unprocessable(str(error)) from error
            for version in withdrawn:
                await self._decisions.withdraw(version, event.version, event.reason)
            self.registry = self.registry.roll_back(event.version, event.reason)
            metrics.PROMOTED.set(event.version)
            await self._reconcile()

    async def _roll_out(self, weights: Weights, probe: Probe) -> None:
        while True:
            async with self._touching:
                # What is promoted may have changed while the candidate waited
                if objection := self.registry.objection(weights.version):
                    await self._hold(weights.version, objection)
                    return
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
                await self._decisions.loaded(weights.version, outcome)
            else:
                replica.mark(up=False, why=outcome.reason)
        return outcomes

    async def _promote(self, version: int, replicas: Sequence[str]) -> None:
        await self._decisions.promote(version, replicas)
        self.registry = self.registry.promote(version)
        metrics.PROMOTED.set(version)
        for replica in self._replicas:
            replica.mark(replica.name in replicas, why=f"version {version} was promoted without it")

    async def _hold(self, version: int, reason: str) -> None:
        await self._decisions.hold(version, reason)
        self.registry = self.registry.hold(version, reason)

    async def _reconcile(self) -> None:
        for replica in self._replicas:
            outcome = await bring_up_to_date(replica, self.registry.promoted, self._source)
            if isinstance(outcome, Proved):
                await self._decisions.loaded(self.registry.promoted, outcome)
