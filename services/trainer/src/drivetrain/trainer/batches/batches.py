"""When to train: as soon as a batch is full, or after a while with what there is. The clock is the caller's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drivetrain.trainer.samples.samples import Reason, Sample

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
class Unit:
    """What is trained together or not at all: one scored turn, all turns of a rollout, or of a group of rollouts.
    `sequences` are the scores that it is made of, also those of rollouts without a turn."""

    key: str
    samples: tuple[Sample, ...]
    sequences: tuple[int, ...]

    @property
    def rank(self) -> tuple[int, int]:
        """Of two units of one key the higher holds: the better informed, of equals the later."""
        return max((sample.seen for sample in self.samples), default=0), max(self.sequences)


def unit_of(sample: Sample) -> Unit:
    """A turn by itself."""
    return Unit(sample.key, (sample,), (sample.sequence,))


def samples_of(units: Sequence[Unit]) -> list[Sample]:
    """All samples of a batch, in its order."""
    return [sample for unit in units for sample in unit.samples]


@dataclass(frozen=True)
class Waiting:
    """A unit and when it came."""

    unit: Unit
    since: float


@dataclass(frozen=True)
class Drop:
    """A unit that will not be trained, and why."""

    unit: Unit
    reason: Reason


class Batches:
    """Units that wait to be trained, oldest first; at most one by a key."""

    def __init__(self, rules: BatchRules) -> None:
        self.rules = rules
        self._waiting: dict[str, Waiting] = {}

    def __len__(self) -> int:
        return sum(len(waiting.unit.samples) for waiting in self._waiting.values())

    def add(self, unit: Unit, now: float) -> list[Drop]:
        """Queue a unit. Of two with one key, as two scores of a turn, the one that saw more holds, of equals the later;
        the other is dropped."""
        earlier = self._waiting.get(unit.key)
        if earlier is None:
            self._waiting[unit.key] = Waiting(unit, now)
            return []
        if earlier.unit.rank >= unit.rank:
            return [Drop(unit, Reason.SUPERSEDED)]
        self._waiting[unit.key] = Waiting(unit, earlier.since)
        return [Drop(earlier.unit, Reason.SUPERSEDED)]

    def expire(self, staleness: Staleness) -> list[Drop]:
        """Remove what the current weights must not learn from any more; a unit goes with its oldest sample."""
        drops = []
        for waiting in self._waiting.values():
            ages = [staleness(sample) for sample in waiting.unit.samples]
            if None in ages:
                drops.append(Drop(waiting.unit, Reason.REJECTED))
            elif max(age for age in ages if age is not None) > self.rules.max_staleness:
                drops.append(Drop(waiting.unit, Reason.STALE))
        for drop in drops:
            del self._waiting[drop.unit.key]
        return drops

    def due_in(self, now: float) -> float | None:
        """Seconds until a batch can be taken without another sample; 0 if one can be now, None if none will."""
        if len(self) >= self.rules.size:
            return 0.0
        if len(self) < max(1, self.rules.min_size):
            return None
        oldest = min(waiting.since for waiting in self._waiting.values())
        return max(0.0, oldest + self.rules.max_wait_s - now)

    def take(self, now: float) -> list[Unit]:
        """The next batch, oldest first; empty while none is due. Units are whole: the last one may go beyond the size.
        Call `expire` before."""
        if self.due_in(now) != 0.0:
            return []
        batch: list[Unit] = []
        for waiting in sorted(self._waiting.values(), key=lambda waiting: (waiting.since, waiting.unit.sequences)):
            if len(samples_of(batch)) >= self.rules.size:
                break
            batch.append(waiting.unit)
            del self._waiting[waiting.unit.key]
        return batch
