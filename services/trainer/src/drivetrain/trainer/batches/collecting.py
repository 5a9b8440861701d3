"""From scores to units: what one event of the stream means for what is trained together."""

from collections.abc import Sequence
from typing import Protocol

from drivetrain.common.events import Event, TurnScored
from drivetrain.trainer.batches.batches import Drop, Unit, unit_of
from drivetrain.trainer.samples.scores import Scores


class Foreign(ValueError):
    """An event that is not of the kind that is trained from; it belongs with the dead letters."""


class Collector(Protocol):
    """Takes in scores and gives out units."""

    def key(self, event: Event) -> tuple[str, str]:
        """The unit that a score belongs to, and the judge that made it.

        Raises:
            Foreign: another kind of event.
        """

    async def take_in(self, event: Event, sequence: int, now: float) -> None:
        """Add a score to what is collected.

        Raises:
            Unusable: it must not or cannot be trained; it is done with.
            BusError: the bus is away.
        """

    def ready(self, now: float) -> tuple[list[Unit], list[Drop]]:
        """Units that are complete since the last call, and those that will not be trained."""

    def due_in(self, now: float) -> float | None:
        """Seconds until a unit is ready without another score, None if none will be."""

    async def rebuild(self, events: Sequence[tuple[Event, int]]) -> Unit:
        """The unit that these scores, with their places in the stream, made before. Raises as `take_in`."""


class Turns:
    """Every scored turn is a unit by itself."""

    def __init__(self, scores: Scores) -> None:
        self._scores = scores
        self._ready: list[Unit] = []

    def key(self, event: Event) -> tuple[str, str]:
        if not isinstance(event, TurnScored):
            raise Foreign(f"the trainer reads turn.scored events, not {type(event).__name__}")
        return f"{event.session}/{event.turn}", event.judge

    async def take_in(self, event: Event, sequence: int, now: float) -> None:
        unit = await self.rebuild([(event, sequence)])
        self._ready.append(unit)  # to the list as it is now: while the turn was read, `ready` may have begun another

    def ready(self, now: float) -> tuple[list[Unit], list[Drop]]:
        units, self._ready = self._ready, []
        return units, []

    def due_in(self, now: float) -> float | None:
        return None

    async def rebuild(self, events: Sequence[tuple[Event, int]]) -> Unit:
        [(event, sequence)] = events
        assert isinstance(event, TurnScored)
        return unit_of(await self._scores.sample(event, sequence))
