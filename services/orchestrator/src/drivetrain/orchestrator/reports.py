"""Telling the bus how rollouts end, each exactly once, also those whose orchestrator died."""

import asyncio
from collections.abc import Callable

from drivetrain.common.bus.base import Bus, BusError, Consumer
from drivetrain.common.events import Event, RolloutStarted, Signal
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.orchestrator.metrics import FINISHED, SECONDS
from drivetrain.orchestrator.rollouts import Ending, Rollout, ending_from_signal, finished_event, outcome_signal

log = get_logger("orchestrator")

RECOVERY = Consumer("ROLLOUTS", "orchestrator-recovery", ("rollout.started.>",), ack_wait_s=0.25, max_deliver=1000)
RECOVERY_WAIT_S = 0.3
"""Longer than the consumer's ack wait: what an interrupted recovery held is seen again."""
PATIENCE = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Seconds between attempts to publish while the bus does not confirm."""


class Reporter:
    """Publishes the endings of rollouts. `clock` gives unix seconds."""

    def __init__(self, bus: Bus, clock: Callable[[], float]) -> None:
        self._bus = bus
        self._clock = clock

    async def finish(self, rollout: Rollout, ending: Ending) -> Ending:
        """Store the outcome, then the end; returns the ending that counts, the stored one if there was one.

        Raises:
            BusError: the bus confirmed nothing for as long as `PATIENCE` adds up to.
        """
        signal = outcome_signal(rollout, ending, self._clock())
        if await publish(self._bus, signal) is None:
            stored = await self._bus.get("SIGNALS", signal.subject(self._bus.shards))
            if stored is not None and isinstance(stored.event, Signal):
                ending = ending_from_signal(stored.event)
        done = finished_event(rollout, ending, self._clock())
        if await publish(self._bus, done) is not None:
            FINISHED.labels(ending.reason).inc()
            SECONDS.labels(ending.reason).observe(done.seconds)
            log.info("rollout finished", rollout=rollout.ref.rollout, reason=ending.reason, outcome=ending.outcome)
        return ending

    async def recover(self) -> int:
        """Report every rollout that an earlier life started and did not finish; returns how many. To be called
        before any rollout is started: each started event is looked at once in the orchestrator's whole history."""
        lost = 0
        async with self._bus.consume(RECOVERY) as subscription:
            while deliveries := await subscription.fetch(32, RECOVERY_WAIT_S):
                for delivery in deliveries:
                    if isinstance(delivery.event, RolloutStarted):
                        lost += await self._recover_one(delivery.event)
                    await delivery.ack()
        return lost

    async def _recover_one(self, started: RolloutStarted) -> bool:
        ref = started.rollout
        if await self._bus.get("ROLLOUTS", f"rollout.finished.{ref.run}.{ref.rollout}") is not None:
            return False
        rollout = Rollout(ref, started.policy, started.session, since=started.at)
        await self.finish(rollout, Ending("infrastructure", None, "the orchestrator ended while this rollout ran"))
        return True


async def publish(bus: Bus, event: Event) -> int | None:
    """Publish with patience; see `Bus.publish` for what is returned and raised."""
    for pause_s in PATIENCE:
        try:
            return await bus.publish(event)
        except BusError as error:
            log.warning("bus did not confirm, trying again", event_type=type(event).__name__, error=str(error))
            await asyncio.sleep(pause_s)
    return await bus.publish(event)
