"""How long it takes from a correction to a changed reply.

The delay of one objection runs from the moment its request is sent to the end of the first reply that (a) was asked
for after a version trained with the corrected turn was promoted, and (b) came back whole. A promoted version counts as
trained with a turn when it and the versions before it took at least as many turns as stood in line up to that turn
(see `Pace.position`): the trainer takes turns in the order of their scores. Objections that no version had taken up
when the demo ended have no delay, and are counted as such.
"""

import statistics
from dataclasses import dataclass, field


@dataclass
class _Correction:
    position: int
    said_at: float
    promoted_at: float | None = None


@dataclass
class Corrections:
    """All objections of a demo. Times are seconds of one clock, whichever it is."""

    _open: list[_Correction] = field(default_factory=list)
    delays_s: list[float] = field(default_factory=list)

    def objected(self, position: int, at: float) -> None:
        """The person objected; the turn stands at this position of the trainer's line."""
        self._open.append(_Correction(position, at))

    def promoted(self, trained: int, at: float) -> None:
        """A version is served; it and those before it were trained on that many turns."""
        for correction in self._open:
            if correction.promoted_at is None and correction.position <= trained:
                correction.promoted_at = at

    def replied(self, asked_at: float, finished_at: float) -> None:
        """A reply came back whole."""
        still_open = []
        for correction in self._open:
            if correction.promoted_at is not None and correction.promoted_at <= asked_at:
                self.delays_s.append(finished_at - correction.said_at)
            else:
                still_open.append(correction)
        self._open = still_open

    def unanswered(self) -> int:
        """Objections for which no reply of a version trained with them was seen."""
        return len(self._open)

    def median_s(self) -> float | None:
        """The median delay in seconds."""
        return statistics.median(self.delays_s) if self.delays_s else None

    def p90_s(self) -> float | None:
        """The delay that nine of ten stay under, in seconds."""
        return sorted(self.delays_s)[int(0.9 * (len(self.delays_s) - 1))] if self.delays_s else None
