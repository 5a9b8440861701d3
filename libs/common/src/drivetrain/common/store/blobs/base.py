"""A store of values by key, whatever keeps them: a folder, S3, or JetStream."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Entry:
    """One stored value: its size in bytes, and when it was last put (unix seconds, by the store's clock)."""

    key: str
    size: int
    at: float


class Blobs(Protocol):
    """Values by key. Keys are words of `[A-Za-z0-9_.-]` joined by slashes. One contract suite holds for all.

    Every method raises `Unavailable` when the store is away, overloaded or slower than its time limit.
    """

    url: str

    async def put(self, key: str, value: bytes | Path) -> None:
        """Store some bytes or a file's, in place of what was there; a reader sees the old value or the whole new one.

        Raises:
            Full, ReadOnly: nothing changed.
        """

    async def read(self, key: str) -> bytes:
        """A value.

        Raises:
            Absent: there is none.
        """

    async def fetch(self, key: str, target: Path) -> None:
        """Write a value into a file, piece by piece.

        Raises:
            Absent: there is none.
        """

    async def entries(self, prefix: str) -> list[Entry]:
        """What is stored below a prefix that ends at a slash, by key."""

    async def delete(self, key: str) -> None:
        """Remove a value; one that is not there is no error.

        Raises:
            ReadOnly: it stays.
        """

    async def close(self) -> None:
        """Let go of connections."""
