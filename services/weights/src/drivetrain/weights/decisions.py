"""Decisions and proofs, published for good: the bus may be away for a while, and what is decided is never lost."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from drivetrain.common.bus.base import Bus, BusError
from drivetrain.common.events import (
    Event,
    WeightsHeld,
    WeightsLoaded,
    WeightsPromoted,
    WeightsRolledback,
)
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.weights import metrics
from drivetrain.weights.rollout import Proved

log = get_logger("weights")

ATTEMPTS = 60
ACK_WAIT_S = 10.0
"""How long a candidate rests after the death of a service that was at work on it."""


class Decisions:
    """Publishes what became of a policy's versions. `clock` is unix time. Every method raises BusError when the bus
    stayed away for `ATTEMPTS` tries."""

    def __init__(
        self,
        bus: Bus,
        policy: str,
        retry_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._bus, self._policy, self._retry_s = bus, policy, retry_s
        self._clock, self._sleep = clock, sleep

    async def made(self, version: int) -> bool:
        """Whether a candidate was decided before, by this process or an earlier one."""
        subjects = [f"weights.{kind}.{self._policy}.{version}" for kind in ("promoted", "held")]
        return any([await self._bus.get("WEIGHTS", subject) for subject in subjects])

    async def promote(self, version: int, replicas: Sequence[str]) -> None:
        """The replicas proved the version."""
        event = WeightsPromoted(policy=self._policy, version=version, replicas=list(replicas), at=self._clock())
        await self._publish(event)
        metrics.DECISIONS.labels("promoted").inc()
        log.info("promoted", version=version, replicas=list(replicas))

    async def hold(self, version: int, reason: str) -> None:
        """The version is refused."""
        await self._publish(WeightsHeld(policy=self._policy, version=version, reason=reason, at=self._clock()))
        metrics.DECISIONS.labels("held").inc()
        log.error("held", version=version, reason=reason)

    async def withdraw(self, version: int, to: int, reason: str) -> None:
        """The version was promoted, and `to` serves again."""
        event = WeightsRolledback(policy=self._policy, version=version, to=to, reason=reason, at=self._clock())
        await self._publish(event)
        metrics.DECISIONS.labels("rolledback").inc()
        log.warning("rolled back", version=version, to=to, reason=reason)

    async def loaded(self, version: int, proved: Proved) -> None:
        """A replica loaded the version and proved it."""
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
        for _ in range(ATTEMPTS - 1):
            try:
                await self._bus.publish(event)
            except BusError as error:
                log.warning("the bus refused, trying again", what=type(event).__name__, reason=str(error))
                await self._sleep(self._retry_s)
            else:
                return
        await self._bus.publish(event)
