"""What a judge model answered, by a hash of what it was asked."""

from collections import OrderedDict
from typing import Protocol


class Cache(Protocol):
    """Keeps values for a while. What is not there any more is asked again."""

    async def get(self, key: bytes) -> bytes | None:
        """The value, None where it is not known."""

    async def put(self, key: bytes, value: bytes) -> None:
        """Keep a value."""


class LocalCache:
    """In this process: at most `size` values, of which the one asked for least recently is forgotten first; 0 keeps
    nothing."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[bytes, bytes] = OrderedDict()

    async def get(self, key: bytes) -> bytes | None:
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    async def put(self, key: bytes, value: bytes) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._size:
            self._values.popitem(last=False)
