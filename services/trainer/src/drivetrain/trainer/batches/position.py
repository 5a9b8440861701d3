"""Which messages of the stream are settled: trained, or dropped for good. Stored in every checkpoint.

Settled sequence numbers form a floor (all up to it) and the set above it, kept as closed intervals. Numbers that the
consumer was never handed, because they lie between two consecutive first deliveries and belong to other subjects,
are settled too: so the set stays a handful of intervals however long the stream grows.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

Interval = tuple[int, int]


class Position:
    """Settled sequence numbers. A redelivered one is acknowledged and not trained again."""

    def __init__(self, intervals: Iterable[Sequence[int]] = ()) -> None:
        self._intervals: list[Interval] = []
        self._newest: int | None = None
        for low, high in intervals:
            self.settle(low, high)

    @property
    def intervals(self) -> list[Interval]:
        """The settled numbers as disjoint, ascending, closed intervals: what a checkpoint stores."""
        return list(self._intervals)

    @property
    def floor(self) -> int:
        """Every number up to this one is settled."""
        first = self._intervals[0] if self._intervals else (1, 0)
        return first[1] if first[0] <= 1 else 0

    def __contains__(self, sequence: int) -> bool:
        place = bisect_right(self._intervals, (sequence, float("inf"))) - 1
        return place >= 0 and self._intervals[place][1] >= sequence

    def delivered(self, sequence: int, attempt: int) -> None:
        """Note a delivery. First deliveries come in stream order, so what lies between two of them is not ours."""
        if attempt != 1:
            return
        if self._newest is not None and self._newest + 1 < sequence:
            self.settle(self._newest + 1, sequence - 1)
        self._newest = max(sequence, self._newest or 0)

    def settle(self, low: int, high: int | None = None) -> None:
        """Mark a number, or all from `low` to `high`, as settled."""
        start, end = low, low if high is None else high
        first = bisect_left(self._intervals, start - 1, key=lambda interval: interval[1])
        last = bisect_right(self._intervals, end + 1, key=lambda interval: interval[0])
        if first < last:
            start = min(start, self._intervals[first][0])
            end = max(end, self._intervals[last - 1][1])
        self._intervals[first:last] = [(start, end)]

    def copy(self) -> "Position":
        """An independent copy, to be stored while this one goes on."""
        twin = Position(self._intervals)
        twin._newest = self._newest
        return twin
