"""How votes become one reward: a precedence of sources, and within a source one rule each.

Stronger sources come first. `feedback` and `outcome` decide whatever they say, a 0 included; the others decide when
they can tell (not 0), and a 0 of theirs passes the question on. No vote at all is no reward: never a zero.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from drivetrain.common.events import Vote

PRECEDENCE: tuple[str, ...] = ("feedback", "outcome", "environment", "model", "reaction")
EXPLICIT = frozenset({"feedback", "outcome"})


@dataclass(frozen=True)
class Combined:
    """A reward in [-1, 1], or None (unresolved), and the source that decided (None: nobody, or only zeros)."""

    reward: float | None
    decided_by: str | None


def combine(votes: Sequence[Vote], precedence: Sequence[str] = PRECEDENCE, silent: str | None = None) -> Combined:
    """The reward that votes add up to. `silent` names a source that should have voted and failed: unless a stronger
    one decided, there is no reward."""
    for source in precedence:
        values = [vote.value for vote in votes if vote.source == source]
        if values:
            value = _WITHIN.get(source, latest)(values)
            if value != 0 or source in EXPLICIT:
                return Combined(value, source)
        if source == silent:
            return Combined(None, None)
    return Combined(0.0 if votes else None, None)


def decided(votes: Sequence[Vote], stronger_than: str, precedence: Sequence[str] = PRECEDENCE) -> bool:
    """Whether a source stronger than the named one has settled the reward, so that asking it would be waste."""
    above = precedence[: precedence.index(stronger_than)]
    return combine([vote for vote in votes if vote.source in above], above).decided_by is not None


def majority(values: Sequence[float]) -> float:
    """The most frequent value; a tie is 0."""
    ranked = Counter(values).most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return 0.0
    return ranked[0][0]


def enough(valid: int, asked: int) -> bool:
    """Whether so many valid votes make a score: at least half of those asked, rounded up."""
    return valid >= math.ceil(asked / 2)


def latest(values: Sequence[float]) -> float:
    """What was said last."""
    return values[-1]


def worst(values: Sequence[float]) -> float:
    """One failure among parallel tool results is a failure; otherwise a success counts."""
    return min(values) if min(values) < 0 else max(values)


_WITHIN: Mapping[str, Callable[[Sequence[float]], float]] = {
    "feedback": latest,
    "outcome": latest,
    "environment": worst,
    "model": majority,
    "reaction": latest,
}
