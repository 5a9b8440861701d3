"""What changed between two versions of a tensor, in few bytes and bit for bit. Pure.

Between neighbouring versions most bfloat16 values are the same and the others move by the smallest step, while in
float32 nearly all move a little. So values are compared as unsigned integers, a change is kept as the integer
difference (small, whatever the value's size), and a piece of a tensor is written in the cheapest of four ways:

| mode | what is kept |
|---|---|
| `same` | nothing |
| `sparse` | the gaps between changed positions, and the differences there |
| `dense` | the differences of all values |
| `whole` | the values themselves |

Numbers are written byte plane by byte plane (all lowest bytes, then all second ones, ...): of small numbers the upper
planes are zeros, which zstd makes vanish.
"""

from typing import Any, Literal, cast

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from drivetrain.common.store.tensors import Bits

Mode = Literal["same", "sparse", "dense", "whole"]
DENSE_SHARE = 0.25
"""Above this share of changed values the positions cost more than zero differences do."""
LEVEL = 3


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """The change of `count` neighbouring values; `gaps` and `values` are compressed."""

    mode: Mode
    count: int
    gaps: bytes = b""
    values: bytes = b""


class BadPiece(ValueError):
    """A piece that does not fit the values it is applied to, or is damaged."""


def change(parent: Bits, child: Bits) -> Piece:
    """What makes `child` of `parent`, arrays of one length and type."""
    changed = np.flatnonzero(parent != child)
    if not changed.size:
        return Piece("same", child.size)
    if changed.size > DENSE_SHARE * child.size:
        piece = Piece("dense", child.size, values=_pack(_zigzag(child - parent)))
        return min(piece, whole(child), key=lambda one: len(one.values))
    gaps = np.diff(changed, prepend=-1) - 1
    steps = _zigzag(child[changed] - parent[changed])
    return Piece("sparse", child.size, _pack(gaps.astype(np.uint32)), _pack(steps))


def whole(child: Bits) -> Piece:
    """A piece that needs no parent."""
    return Piece("whole", child.size, values=_pack(child))


def apply(piece: Piece, parent: Bits | None, dtype: np.dtype[Any]) -> Bits:
    """The child's values, of type `dtype`; `parent` is None where there is none.

    Raises:
        BadPiece: the piece is damaged, or the parent is missing or of another length.
    """
    if piece.mode == "whole":
        return _unpack(piece.values, dtype, piece.count)
    if parent is None or parent.size != piece.count:
        raise BadPiece(f"a change of {piece.count} values is applied to {0 if parent is None else parent.size}")
    if piece.mode == "same":
        return parent
    if piece.mode == "dense":
        return parent + _unzigzag(_unpack(piece.values, dtype, piece.count))
    gaps = _unpack(piece.gaps, np.dtype(np.uint32))
    places = np.cumsum(gaps.astype(np.int64) + 1) - 1
    if places.size and places[-1] >= piece.count:
        raise BadPiece(f"a change at {places[-1]} of {piece.count} values")
    child = parent.copy()
    child[places] += _unzigzag(_unpack(piece.values, dtype, places.size))
    return child


def _zigzag(differences: Bits) -> Bits:
    """Small numbers of either sign as small numbers: 0, -1, 1, -2 become 0, 1, 2, 3."""
    signed: NDArray[np.signedinteger[Any]] = differences.view(f"i{differences.itemsize}")
    numbers = (signed << 1) ^ (signed >> (8 * signed.itemsize - 1))
    return cast(Bits, numbers.view(differences.dtype))


def _unzigzag(numbers: Bits) -> Bits:
    return cast(Bits, (numbers >> 1) ^ (~(numbers & 1) + 1))


def _pack(numbers: Bits) -> bytes:
    planes = np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, numbers.itemsize).T
    return zstandard.ZstdCompressor(LEVEL).compress(planes.tobytes())


def _unpack(packed: bytes, dtype: np.dtype[Any], count: int | None = None) -> Bits:
    try:
        raw: NDArray[np.uint8] = np.frombuffer(zstandard.ZstdDecompressor().decompress(packed), np.uint8)
    except zstandard.ZstdError as error:
        raise BadPiece(f"a change cannot be unpacked: {error}") from error
    if raw.size % dtype.itemsize or (count is not None and raw.size != count * dtype.itemsize):
        raise BadPiece(f"a change has {raw.size} bytes where {count} values of {dtype.itemsize} bytes are due")
    return np.ascontiguousarray(raw.reshape(dtype.itemsize, -1).T).reshape(-1).view(dtype)
