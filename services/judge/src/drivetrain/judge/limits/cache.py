"""A bounded cache: what was asked for least recently is forgotten first."""

from collections import OrderedDict
from typing import Generic, TypeVar

V = TypeVar("V")


class Cache(Generic[V]):
    """At most `size` values by the hash of what they are about; 0 keeps nothing."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[bytes, V] = OrderedDict()

    def get(self, key: bytes) -> V | None:
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: bytes, value: V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._size:
            self._values.popitem(last=False)
