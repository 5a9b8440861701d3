"""A check of a candidate, before it is loaded anywhere and when the first replica serves it."""

from collections.abc import Sequence
from typing import Protocol

from drivetrain.common.events import WeightsCandidate
from drivetrain.weights.replica import Replica
from drivetrain.weights.target import Target


class Check(Protocol):
    """Each method returns why the candidate must not be promoted, or None."""

    async def before(self, candidate: WeightsCandidate) -> str | None:
        """From its announcement alone."""

    async def served(self, target: Target, candidate: WeightsCandidate, replicas: Sequence[Replica]) -> str | None:
        """With these replicas serving it."""
