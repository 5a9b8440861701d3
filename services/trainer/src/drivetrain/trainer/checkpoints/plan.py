"""The plan of a batch: what is about to be trained, in order, stored before the step so that a crash redoes it."""

import msgspec


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A score: its place in the stream, and the subject that it is read by."""

    sequence: int
    subject: str


class Plan(msgspec.Struct, frozen=True):
    """A batch of units, each made of scores, to be trained from version `parent`; `reads` as in `inbox.Memory`."""

    parent: int
    reads: str
    units: list[list[Entry]]

    @property
    def sequences(self) -> list[int]:
        """All scores of the batch."""
        return [entry.sequence for unit in self.units for entry in unit]
