"""When to train: as soon as a batch is full, or after a while with what there is. The clock is the caller's."""

from collections.abc import Callable
from dataclasses import dataclass

from drivetrain.trainer.samples import Reason, Sample

Staleness = Callable[[Sample], int | None]
"""Optimiser steps between a sample's oldest token and the weights; None: sampled off the lineage."""


@dataclass(frozen=True)
class BatchRules:
    """`size` samples make a batch; after `max_wait_s` since the oldest came, `min_size` are enough. Samples older
    than `max_staleness` optimiser steps are dropped."""

    size: int
    min_size: int
    max_wait_s: float
    max_staleness: int


@dataclass(frozen=True)
class Waiting:
    """A sample and when it came."""

    sample: Sample
    since: float


@dataclass(frozen=True)
class Drop:
    """A sample that will not be trained, and why."""

    sample: Sample
    reason: Reason


class Batches:
    """Samples that wait to be trained, oldest first; at most one score per turn."""

    def __init__(self, rules: BatchRules) -> None:
        self.rules = rules
        self._waiting: dict[str, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, sample: Sample, now: float) -> list[Drop]:
        """Queue a sample. Of two scores of a waiting turn the one that saw more holds, of equals the later; the
        other is dropped."""
        earlier = self._waiting.get(sample.key)
        if earlier is None:
            self._waiting[sample.key] = Waiting(sample, now)
            return []
        if (earlier.sample.seen, earlier.sample.sequence) >= (sample.seen, sample.sequence):
            return [Drop(sample, Reason.SUPERSEDED)]
        self._waiting[sample.key] = Waiting(sample, earlier.since)
        return [Drop(earlier.sample, Reason.SUPERSEDED)]

    def expire(self, staleness: Staleness) -> list[Drop]:
        """Remove what the current weights must not learn from any more."""
        drops = []
        for waiting in self._waiting.values():
            steps = staleness(waiting.sample)
            if steps is None:
                drops.append(Drop(waiting.sample, Reason.REJECTED))
            elif steps > self.rules.max_staleness:
                drops.append(Drop(waiting.sample, Reason.STALE))
        for drop in drops:
            del self._waiting[drop.sample.key]
        return drops

    def due_in(self, now: float) -> float | None:
        """Seconds until a batch can be taken without another sample; 0 if one can be now, None if none will."""
        if len(self._waiting) >= self.rules.size:
            return 0.0
        if len(self._waiting) < max(1, self.rules.min_size):
            return None
        oldest = min(waiting.since for waiting in self._waiting.values())
        return max(0.0, oldest + self.rules.max_wait_s - now)

    def take(self, now: float) -> list[Sample]:
        """The next batch, oldest first; empty while none is due. Call `expire` before."""
        if self.due_in(now) != 0.0:
            return []
        ordered = sorted(self._waiting.values(), key=lambda waiting: (waiting.since, waiting.sample.sequence))
        batch = [waiting.sample for waiting in ordered[: self.rules.size]]
        for sample in batch:
            del self._waiting[sample.key]
        return batch
