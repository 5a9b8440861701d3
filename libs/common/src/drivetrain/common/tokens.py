"""Token ids and logprobs as they travel: little-endian int32 and float32 bytes."""

import sys
from array import array
from collections.abc import Iterable
from typing import TypeVar

N = TypeVar("N", int, float)


def pack_ids(ids: Iterable[int]) -> bytes:
    """Token ids as little-endian int32 bytes.

    Raises:
        OverflowError: an id does not fit 32 bits.
    """
    return _little(array("i", ids)).tobytes()


def unpack_ids(data: bytes) -> list[int]:
    """The token ids in little-endian int32 bytes.

    Raises:
        ValueError: the length is not a multiple of four.
    """
    return _little(array("i", data)).tolist()


def pack_logprobs(logprobs: Iterable[float]) -> bytes:
    """Logprobs as little-endian float32 bytes."""
    return _little(array("f", logprobs)).tobytes()


def unpack_logprobs(data: bytes) -> list[float]:
    """The logprobs in little-endian float32 bytes; see `unpack_ids` for errors."""
    return _little(array("f", data)).tolist()


def _little(values: "array[N]") -> "array[N]":
    if sys.byteorder == "big":
        values.byteswap()
    return values
