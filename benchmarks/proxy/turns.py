"""Memory over many turns, and the work of a late turn beside an early one's."""

import statistics
import time
from collections.abc import Sequence

import msgspec

from benchmarks.proxy.candidates import Candidate
from benchmarks.proxy.measure import Bench
from benchmarks.proxy.workload import Shape

MANY = Shape(history=500, new=100, fresh=500, fresh_every=10, reply=16, turns=20)
"""Many short conversations: one request in ten begins one, the others go on."""


class Sample(msgspec.Struct, frozen=True):
    """Memory at a time."""

    at_s: float
    memory_mb: float


def memory_over_turns(bench: Bench, candidate: Candidate, turns: int, streams: int = 16) -> dict[str, float]:
    """Ask for so many turns as fast as can be, and watch the proxy's memory every second."""
    samples: list[Sample] = []
    cell = bench.measure(
        "drivetrain",
        candidate,
        MANY,
        streams=streams,
        pace=0,
        turns=turns,
        watch=lambda: samples.append(Sample(time.monotonic(), candidate.cost().memory_mb)),
    )
    measured = cell.measured
    return {
        **growth(samples, measured.requests),
        "turns": float(measured.requests),
        "failed_requests": float(measured.failed + measured.unanswered),
        "requests_per_s": cell.per_second,
        "rps_per_core": cell.per_core,
    }


def growth(samples: Sequence[Sample], turns: int) -> dict[str, float]:
    """How memory went: after a fifth of the time, at the end, and its slope in between for 10,000 turns."""
    settled = samples[len(samples) // 5 :]
    if len(settled) < 2:
        return {}
    rate_s = turns / (samples[-1].at_s - samples[0].at_s)
    slope = statistics.linear_regression([s.at_s for s in settled], [s.memory_mb for s in settled]).slope
    return {
        "memory_mb_after_a_fifth": settled[0].memory_mb,
        "memory_mb_at_the_end": settled[-1].memory_mb,
        "memory_mb_most": max(sample.memory_mb for sample in samples),
        "memory_growth_mb_per_10k_turns": slope / rate_s * 10_000,
    }
