"""Latencies in bounded memory: a histogram whose buckets are one per cent wide."""

import math
from collections.abc import Mapping

_STEP = math.log(1.01)
FLOOR_S = 1e-6
"""Everything shorter counts as this."""


class Histogram:
    """Durations in seconds. Percentiles are right to one per cent, whatever the number of values."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: dict[int, int] = dict(counts or {})

    def add(self, seconds: float, times: int = 1) -> None:
        """Count a duration."""
        bucket = math.floor(math.log(max(seconds, FLOOR_S) / FLOOR_S) / _STEP)
        self.counts[bucket] = self.counts.get(bucket, 0) + times

    def __len__(self) -> int:
        return sum(self.counts.values())

    def percentile(self, percent: float) -> float:
        """The duration that this share of all values does not exceed; NaN without values."""
        wanted = max(math.ceil(len(self) * percent / 100), 1)
        for bucket in sorted(self.counts):
            wanted -= self.counts[bucket]
            if wanted <= 0:
                return FLOOR_S * math.exp((bucket + 0.5) * _STEP)
        return math.nan
