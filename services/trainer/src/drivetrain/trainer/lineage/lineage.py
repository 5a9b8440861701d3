"""The chain of versions: who came from whom, at which optimiser step, and what became of each.

Version 0 is the base model, step 0, and counts as promoted. Numbers only grow and are never used twice.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Literal

import msgspec

Fate = Literal["candidate", "promoted", "rejected"]


class Version(msgspec.Struct, frozen=True):
    """One version: its parent, the optimiser steps on the lineage up to it, and its fate so far."""

    parent: int
    step: int
    fate: Fate = "candidate"


BASE = Version(parent=0, step=0, fate="promoted")


class Lineage(msgspec.Struct, frozen=True):
    """All versions of a policy, the one in training (`head`) and the last one promoted. Immutable: every change
    returns a new lineage."""

    versions: dict[int, Version] = msgspec.field(default_factory=lambda: {0: BASE})
    head: int = 0
    promoted: int = 0
    highest: int = 0

    @property
    def step(self) -> int:
        """Optimiser steps from the base to the weights in training."""
        return self.versions[self.head].step

    @property
    def next_version(self) -> int:
        return self.highest + 1

    def ancestry(self, version: int | None = None) -> Iterator[int]:
        """A version (the head), its parent, and so on, to the base."""
        version = self.head if version is None else version
        while True:
            yield version
            if version == 0:
                return
            version = self.versions[version].parent

    def contains(self, version: int) -> bool:
        """Whether a version is the head or one of its ancestors. A child's number is above its parent's."""
        return next(v for v in self.ancestry() if v <= max(version, 0)) == version

    def awaiting(self) -> list[int]:
        """Versions that the head descends from, newer than the promoted one, and not yet promoted."""
        newer = takewhile(lambda version: version > self.promoted, self.ancestry())
        return [version for version in newer if self.versions[version].fate == "candidate"]

    def staleness(self, version: int) -> int | None:
        """Optimiser steps between a version and the weights in training; None if it is not on the lineage."""
        return self.step - self.versions[version].step if self.contains(version) else None

    def reserve(self, highest: int) -> "Lineage":
        """Use no number up to `highest` again: it was seen elsewhere."""
        return msgspec.structs.replace(self, highest=max(highest, self.highest))

    def grow(self, version: int, parent: int, step: int) -> "Lineage":
        """A new candidate becomes the head, unless its parent was rejected meanwhile: then it is too."""
        rejected = self.versions[parent].fate == "rejected"
        versions = {**self.versions, version: Version(parent, step, "rejected" if rejected else "candidate")}
        head = self.head if rejected else version
        return Lineage(versions, head=head, promoted=self.promoted, highest=max(version, self.highest))

    def promote(self, version: int) -> "Lineage":
        """A version serves. Training goes on from the head if that descends from it, else from the version itself."""
        versions = {**self.versions, version: msgspec.structs.replace(self.versions[version], fate="promoted")}
        head = self.head if self.contains(version) else version
        return Lineage(versions, head=head, promoted=version, highest=self.highest)

    def reject(self, version: int, back_to: int) -> "Lineage":
        """A version and what descends from it are off the lineage; if the head was among them, training goes back to
        `back_to`."""
        doomed = set(self._descendants(version))
        versions = {
            number: msgspec.structs.replace(entry, fate="rejected") if number in doomed else entry
            for number, entry in self.versions.items()
        }
        head = back_to if self.head in doomed else self.head
        promoted = back_to if self.promoted in doomed else self.promoted
        return Lineage(versions, head=head, promoted=promoted, highest=self.highest)

    def _descendants(self, version: int) -> Iterator[int]:
        yield version
        for number, entry in self.versions.items():
            if entry.parent == version and number not in (0, version):
                yield from self._descendants(number)
