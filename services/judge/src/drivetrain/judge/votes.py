"""How votes become one reward: a precedence of sources, and within a source one rule each. Pure.

Stronger sources come first. A `final` source (feedback, outcome) decides whatever it says, a 0 included; the others
decide when they can tell (not 0), and a 0 of theirs passes the question on. No vote at all is no reward: never a zero.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from drivetrain.common.events import Vote


class Ranked(Protocol):
    """What counting needs to know of a source; `sources.base.Source` says what each part means."""

    @property
    def name(self) -> str: ...
    @property
    def final(self) -> bool: ...
    @property
    def within(self) -> Callable[[Sequence[float]], float]: ...
    @property
    def adds(self) -> float: ...


@dataclass(frozen=True)
class Combined:
    """A reward, or None (unresolved), and the source that decided (None: nobody, or only zeros).

    The reward lies in [-1, 1], and within `1 + adds` of zero when the source that decided adds the weaker votes.
    """

    reward: float | None
    decided_by: str | None


def combine(votes: Sequence[Vote], sources: Sequence[Ranked], silent: str | None = None) -> Combined:
    """The reward that votes add up to, with the sources in order of precedence. `silent` names a source that should
    have voted and failed: unless a stronger one decided, there is no reward."""
    for place, source in enumerate(sources):
        values = [credited(vote) for vote in votes if vote.source == source.name]
        if values:
            value = source.within(values)
            if value != 0 or source.final:
                weaker = {other.name for other in sources[place + 1 :]} if source.adds else set()
                step = [credited(vote) for vote in votes if vote.source in weaker]
                return Combined(value + source.adds * mean(step), source.name)
        if source.name == silent:
            return Combined(None, None)
    return Combined(0.0 if votes else None, None)


def settled(votes: Sequence[Vote], stronger: Sequence[Ranked]) -> bool:
    """Whether one of the stronger sources has settled the reward, so that asking a weaker one would be waste."""
    names = {source.name for source in stronger}
    by = combine([vote for vote in votes if vote.source in names], stronger).decided_by
    return any(source.name == by and not source.adds for source in stronger)


def credited(vote: Vote) -> float:
    """How much of its value a vote counts for: its weight is the share that is credited to the turn."""
    return vote.value * vote.weight


def mean(values: Sequence[float]) -> float:
    """The mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


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
