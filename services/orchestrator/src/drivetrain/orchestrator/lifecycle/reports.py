"""Telling the bus what becomes of rollouts, each end exactly once."""

import asyncio
from collections.abc import Callable

from drivetrain.common.bus.base import Bus, BusError
from drivetrain.common.events import Event, Signal
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.orchestrator.lifecycle.rollouts import (
    Ending,
    Rollout,
    ending_from_signal,
    finished_event,
    moved_event,
    outcome_signal,
)
from drivetrain.orchestrator.metrics import FINISHED, SECONDS

log = get_logger("orchestrator")

PATIENCE = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Seconds between attempts to publish while the bus does not confirm."""


class Reporter:
    """Publishes the states and endings of rollouts. `clock` gives unix seconds."""

    def __init__(self, bus: Bus, clock: Callable[[], float]) -> None:
        self._bus = bus
        self._clock = clock

    async def moved(self, rollout: Rollout, detail: str = "") -> None:
        """Store where a rollout's attempt stands now.

        Raises:
            BusError: the bus confirmed nothing for as long as `PATIENCE` adds up to.
        """
        more = {"detail": detail} if detail else {}
        log.info("rollout moved", rollout=rollout.ref.rollout, state=rollout.state, attempt=rollout.attempt, **more)
        await publish(self._bus, moved_event(rollout, self._clock(), detail))

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


async def publish(bus: Bus, event: Event) -> int | None:
    """Publish with patience; see `Bus.publish` for what is returned and raised."""
    for pause_s in PATIENCE:
        try:
            return await bus.publish(event)
        except BusError as error:
            log.warning("bus did not confirm, trying again", event_type=type(event).__name__, error=str(error))
            await asyncio.sleep(pause_s)
    return await bus.publish(event)
