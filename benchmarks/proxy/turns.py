"""Memory over many turns: is it flat once the caches are full?"""

from collections.abc import Sequence

import msgspec

from benchmarks.proxy.candidates import Candidate
from benchmarks.proxy.measure import Bench
from benchmarks.proxy.workload import Shape

MANY = Shape(history=200, new=50, fresh=200, fresh_every=10, reply=8, turns=10, ends=True)
"""Many short conversations, each of which ends: one request in ten begins one that is never heard of again."""

CACHE_BYTES = 4 << 20
"""The least that the cache of conversations may have, so that it is full long before what is measured begins."""


class Sample(msgspec.Struct, frozen=True):
    """Memory after so many turns."""

    turns: float
    memory_mb: float


def memory_over_turns(bench: Bench, candidate: Candidate, turns: int, streams: int = 16) -> dict[str, float]:
    """Ask for so many turns as fast as can be, and watch the proxy's memory every second."""
    samples: list[Sample] = []

    def watch() -> None:
        samples.append(Sample(candidate.recorded_turns(), candidate.cost().memory_mb))

    cell = bench.measure("drivetrain", candidate, MANY, streams=streams, pace=0, turns=turns, watch=watch)
    watch()
    measured = cell.measured
    return {
        **growth(samples, turns),
        "turns": float(measured.requests),
        "failed_requests": float(measured.failed + measured.unanswered),
        "requests_per_s": cell.per_second,
        "rps_per_core": cell.per_core,
    }


def growth(samples: Sequence[Sample], turns: int) -> dict[str, float]:
    """Memory after each fifth of the turns, and how much it grew from the first of them to the last. For 50,000 turns
    that is `rss_growth_mb_10k_50k`."""
    marks = [turns * fifth // 5 for fifth in range(1, 6)]
    at = {mark: next((each.memory_mb for each in samples if each.turns >= mark * 0.999), None) for mark in marks}
    found = {f"rss_mb_{_thousands(mark)}": memory for mark, memory in at.items() if memory is not None}
    if len(found) == len(marks):
        first, *_, last = found.values()
        found[f"rss_growth_mb_{_thousands(marks[0])}_{_thousands(marks[-1])}"] = last - first
    return found


def _thousands(turns: int) -> str:
    return f"{turns // 1000}k" if turns >= 1000 else str(turns)
