"""Shares, agreement and calibration with their 95% intervals. Pure; chance comes in as a generator."""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")

Z = 1.959964
"""Standard deviations on either side of the middle that hold 95% of a normal distribution."""
RESAMPLES = 1000
BINS = 10


class Estimate(msgspec.Struct, frozen=True):
    """A figure and its 95% interval, from `of` turns; all None where there was nothing to count."""

    value: float | None
    low: float | None
    high: float | None
    of: int


class Bin(msgspec.Struct, frozen=True):
    """Judgements whose confidence lies in (low, high] (0 in the first): their number, mean confidence, share right."""

    low: float
    high: float
    count: int
    confidence: float
    right: float


def share(hits: Sequence[bool]) -> Estimate:
    """The share of True, with Wilson's score interval: it stays inside [0, 1] and is honest for small sets."""
    n = len(hits)
    if n == 0:
        return Estimate(None, None, None, 0)
    p = sum(hits) / n
    middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return Estimate(p, max(0.0, middle - half), min(1.0, middle + half), n)


def kappa(pairs: Sequence[tuple[object, object]]) -> float | None:
    """Cohen's kappa of two raters: agreement beyond chance, 1 at best. None if chance alone explains all agreement."""
    n = len(pairs)
    if n == 0:
        return None
    observed = sum(a == b for a, b in pairs) / n
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    expected = sum(first[name] * second[name] for name in first) / (n * n)
    return None if expected == 1 else (observed - expected) / (1 - expected)


def bins(judged: Sequence[tuple[float, bool]]) -> list[Bin]:
    """Confidences in [0, 1] and whether each judgement was right, in ten bins of one width; empty ones are left out."""
    found = []
    for index in range(BINS):
        held = [pair for pair in judged if _bin(pair[0]) == index]
        if held:
            confidence, right = (sum(values) / len(held) for values in zip(*held, strict=True))
            found.append(Bin(index / BINS, (index + 1) / BINS, len(held), confidence, right))
    return found


def calibration_error(judged: Sequence[tuple[float, bool]]) -> float | None:
    """The expected calibration error: how far, on average, confidence is from the share that is right."""
    if not judged:
        return None
    return sum(one.count * abs(one.confidence - one.right) for one in bins(judged)) / len(judged)


def resampled(values: Sequence[T], figure: Callable[[Sequence[T]], float | None], rng: random.Random) -> Estimate:
    """A figure with its bootstrap interval: the middle 95% of its values over samples drawn with replacement."""
    drawn = (figure(rng.choices(values, k=len(values))) for _ in range(RESAMPLES if values else 0))
    known = sorted(value for value in drawn if value is not None)
    if not known:
        return Estimate(figure(values), None, None, len(values))
    cut = int(0.025 * len(known))
    return Estimate(figure(values), known[cut], known[-1 - cut], len(values))


def _bin(confidence: float) -> int:
    """A confidence of 0.3 is in the third bin however it is stored: bins are closed on the right."""
    return max(0, math.ceil(round(confidence * BINS, 9)) - 1)
