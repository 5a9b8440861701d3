"""The service: takes candidates one by one, rolls each out, decides, and keeps every replica at what is promoted."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from drivetrain.common.bus.base import Bus, Consumer, Delivery
from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.errors import CannotStart
from drivetrain.common.events import WeightsCandidate, WeightsRollback
from drivetrain.common.store.errors import BadCheckpoint, NoSpace, StoreError
from drivetrain.common.store.lives import State, read_lives
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.weights import metrics
from drivetrain.weights.care import bring_up_to_date
from drivetrain.weights.checks.base import Check
from drivetrain.weights.decisions import ACK_WAIT_S, Decisions
from drivetrain.weights.engines.base import EngineError, adapter_name
from drivetrain.weights.fleet import Course, Fleet
from drivetrain.weights.registry import IllegalTransition, Registry
from drivetrain.weights.replica import Replica
from drivetrain.weights.rollout import Hold, Outcome, Promote, Proved, Rejected, Verdict, verdict
from drivetrain.weights.source import Source
from drivetrain.weights.target import Target

log = get_logger("weights")


class WeightsService:
    """Decides about the versions of one policy. `clock` is unix time; `unused_s` is how long an adapter stays loaded
    after its last request; `store_first` keeps a candidate where replicas read it, before it is offered to them."""

    def __init__(
        self,
        bus: Bus,
        source: Source,
        fleet: Fleet,
        retry_s: float,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        unused_s: float = 10.0,
        checks: Sequence[Check] = (),
        store_first: Callable[[WeightsCandidate], Awaitable[None]] | None = None,
    ) -> None:
        self.registry = Registry()
        self.fleet = fleet
        self._bus, self._source = bus, source
        self._retry_s, self._sleep, self._unused_s = retry_s, sleep, unused_s
        self._checks, self._store_first = checks, store_first
        self._policy = source.policy
        self._decisions = Decisions(bus, source.policy, retry_s, clock, sleep)
        # Held while replicas are touched: the periodic look must not undo a rollout in progress
        self._touching = asyncio.Lock()

    @property
    def consumer(self) -> Consumer:
        """One candidate at a time, in the order of their announcement, also after a restart."""
        subject = f"weights.candidate.{self._policy}.>"
        durable = f"weights-{self._policy}"
        return Consumer("WEIGHTS", durable, (subject,), ack_wait_s=ACK_WAIT_S, max_deliver=100, max_ack_pending=1)

    @property
    def rollbacks(self) -> Consumer:
        """Requests to go back, beside the candidates, so that none waits behind a candidate that waits for replicas."""
        subject = f"weights.rollback.{self._policy}.>"
        durable = f"weights-{self._policy}-rollback"
        return Consumer("WEIGHTS", durable, (subject,), ack_wait_s=ACK_WAIT_S, max_deliver=100, max_ack_pending=1)

    @property
    def serving(self) -> bool:
        """Whether at least one replica serves what is promoted."""
        return self.fleet.serving

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
        self.fleet.course = Course(serves)
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
        objection = self.registry.objection(event.version) or await self._objection(event)
        if objection:
            await self._hold(event.version, objection)
            return
        try:
            if self._store_first:
                await self._store_first(event)
            target = await self._source.announced(event.version, event.digest)
        except BadCheckpoint as error:
            await self._hold(event.version, str(error))
            return
        self.registry = self.registry.begin(event.version)
        await self._roll_out(target, event)

    async def _objection(self, event: WeightsCandidate) -> str | None:
        """What a check has against a candidate before any replica is touched."""
        for check in self._checks:
            if objection := await check.before(event):
                return objection
        return None

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
                await self._source.target(event.version)
            except (IllegalTransition, BadCheckpoint, StoreError, NoSpace) as error:
                log.error("rollback refused", version=event.version, reason=str(error))
                raise Unprocessable(str(error)) from error
            for version in withdrawn:
                await self._decisions.withdraw(version, event.version, event.reason)
            self.registry = self.registry.roll_back(event.version, event.reason)
            metrics.PROMOTED.set(event.version)
            await self.fleet.set(Course(event.version))
            await self._reconcile()

    async def _roll_out(self, target: Target, event: WeightsCandidate) -> None:
        while True:
            async with self._touching:
                # What is promoted may have changed while the candidate waited
                if objection := self.registry.objection(target.version):
                    await self._hold(target.version, objection)
                    return
                decision = await self._tried(target, event)
                if isinstance(decision, Promote):
                    await self._promote(target.version, decision.replicas)
                    return
                if isinstance(decision, Hold):
                    await self._hold(target.version, decision.reason)
                    await self.fleet.set(Course(self.registry.promoted))
                    await self._reconcile()
                    return
            log.error("no replica answers, the candidate waits", version=target.version, reason=decision.reason)
            await self._sleep(self._retry_s)

    async def _tried(self, target: Target, event: WeightsCandidate) -> Verdict:
        """Stage the version everywhere, load it wave by wave, and let the checks see it on the first replicas; whatever
        speaks against it ends it."""
        if refused := await self.fleet.stage(target):
            return verdict([refused])
        outcomes: list[Outcome] = []
        checked = False
        async for wave in self.fleet.waves(target):
            for replica, outcome in wave:
                outcomes.append(outcome)
                await self._noted(target.version, replica, outcome)
            if isinstance(verdict(outcomes), Hold):
                break
            proved = [replica for replica, outcome in wave if isinstance(outcome, Proved)]
            if proved and not checked:
                checked = True
                if objection := await self._seen(target, event, proved):
                    return Hold(objection)
        return verdict(outcomes)

    async def _seen(self, target: Target, event: WeightsCandidate, replicas: Sequence[Replica]) -> str | None:
        """What a check has against a version that these replicas serve."""
        for check in self._checks:
            if objection := await check.served(target, event, replicas):
                return objection
        return None

    async def _noted(self, version: int, replica: Replica, outcome: Outcome) -> None:
        if isinstance(outcome, Proved):
            await self._decisions.loaded(version, outcome)
        else:
            # What refused the version serves on with what it had; what serves it wrongly proved nothing
            replica.mark(isinstance(outcome, Rejected) and bool(replica.proved), why=outcome.reason)
        await self.fleet.publish()

    async def _promote(self, version: int, replicas: Sequence[str]) -> None:
        await self._decisions.promote(version, replicas)
        self.registry = self.registry.promote(version)
        metrics.PROMOTED.set(version)
        for replica in self.fleet:
            replica.mark(replica.name in replicas, replica.why or f"version {version} was promoted without it")
        await self.fleet.set(Course(version))

    async def _hold(self, version: int, reason: str) -> None:
        await self._decisions.hold(version, reason)
        self.registry = self.registry.hold(version, reason)

    async def _reconcile(self) -> None:
        await self.fleet.discover()
        promoted = self.registry.promoted
        care = (bring_up_to_date(replica, promoted, self._source, self.fleet.turn) for replica in self.fleet)
        outcomes = await asyncio.gather(*care)
        for outcome in outcomes:
            if isinstance(outcome, Proved):
                await self._decisions.loaded(promoted, outcome)
        await asyncio.gather(*map(self._tidy, self.fleet))
        await self.fleet.publish()

    async def _tidy(self, replica: Replica) -> None:
        course = self.fleet.course
        wanted = {adapter_name(self._policy, version) for version in (course.version, course.canary) if version}
        try:
            if replica.up:
                await replica.tidy(wanted, self._policy, self._unused_s)
        except EngineError as error:
            log.warning("old adapters stay", replica=replica.name, reason=str(error))
