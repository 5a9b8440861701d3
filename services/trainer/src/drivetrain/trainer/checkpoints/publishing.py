"""What must not fail for want of disk space or of the bus: the plan of a batch, its checkpoint, its announcement."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from drivetrain.common.bus import Bus, BusError
from drivetrain.common.events import WeightsCandidate
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.store import Manifest
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.trainer.checkpoints.checkpoints import Checkpoints, Place, TrainerState
from drivetrain.trainer.checkpoints.plan import Plan
from drivetrain.trainer.learning.learner import Interrupted, Step
from drivetrain.trainer.learning.studio import Studio
from drivetrain.trainer.telemetry import Meters

T = TypeVar("T")
RETRY_S = 5.0
log = get_logger("trainer")


class Publisher:
    """Stores and announces, however often it takes. All methods raise Interrupted when the service stops."""

    def __init__(
        self, bus: Bus, checkpoints: Checkpoints, studio: Studio, lifecycle: Lifecycle, meters: Meters
    ) -> None:
        self._bus = bus
        self._checkpoints = checkpoints
        self._studio = studio
        self._lifecycle = lifecycle
        self._meters = meters

    async def plan(self, plan: Plan) -> None:
        """Store what is about to be trained."""
        await self._persist(lambda: asyncio.to_thread(self._checkpoints.plan.write, plan), "plan not stored")

    async def save(self, place: Place, state: TrainerState, step: Step) -> Manifest:
        """Store the weights in training as a checkpoint."""
        save = lambda: asyncio.to_thread(self._save, place, state, step)  # noqa: E731
        manifest, seconds = await self._persist(save, "checkpoint not stored")
        self._meters.saved(seconds)
        return manifest

    async def announce(self, manifest: Manifest) -> None:
        """Publish a candidate; one that was announced before is not stored twice."""
        candidate = candidate_of(manifest, time.time())
        await self._persist(lambda: self._bus.publish(candidate), "candidate not announced")

    def _save(self, place: Place, state: TrainerState, step: Step) -> tuple[Manifest, float]:
        studio, started = self._studio, time.monotonic()
        manifest = self._checkpoints.save(
            studio.model,
            studio.learner.optimizer,
            state,
            place,
            studio.probe(),
            step.metrics,
            time.time(),
        )
        return manifest, time.monotonic() - started

    async def _persist(self, work: Callable[[], Awaitable[T]], failed: str) -> T:
        while True:
            try:
                return await work()
            except (OSError, BusError) as error:
                log.error(f"{failed}, trying again", why=str(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._lifecycle.until_stopped(), RETRY_S)
            if self._lifecycle.stopping:
                raise Interrupted(failed)


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
