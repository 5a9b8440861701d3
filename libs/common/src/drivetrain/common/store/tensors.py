"""Safetensors files as bytes: where each tensor lies, its checksum, and whether its values are finite.

Values are looked at as unsigned integers of their width, so that nothing (the sign of a zero, a denormal) is lost or
rounded on the way, and no library for bfloat16 is needed.
"""

import hashlib
import math
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from drivetrain.common.store.errors import BadCheckpoint, NotFinite

Bits = NDArray[np.unsignedinteger[Any]]

EXPONENTS = {"BF16": (np.uint16, 0x7F80), "F16": (np.uint16, 0x7C00), "F32": (np.uint32, 0x7F800000)}
"""By floating type: the integer of its width, and the exponent's bits, which are all set in NaN and infinity."""
LONGEST_HEADER = 100_000_000
CHUNK = 1 << 24
"""Values that are looked at together."""


class TensorFact(msgspec.Struct, frozen=True):
    """What a manifest says of one tensor: safetensors type, shape, bytes, and their sha256."""

    dtype: str
    shape: tuple[int, ...]
    size: int
    sha256: str


class _Entry(msgspec.Struct, frozen=True):
    """One tensor in a file's header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file; `data` are its bytes, read when they are looked at."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]

    def bits(self) -> Bits:
        """The values as unsigned integers of their width; bytes for types that are not floating."""
        kind = EXPONENTS.get(self.dtype, (np.uint8, 0))[0]
        return self.data.view(kind)

    def like(self, other: "Tensor") -> bool:
        """Whether both have the same type and shape."""
        return (self.dtype, self.shape) == (other.dtype, other.shape)


@dataclass(frozen=True)
class TensorFile:
    """A safetensors file: all bytes before the data, and the tensors in the order of the data."""

    head: bytes
    tensors: tuple[Tensor, ...]


def read_file(file: Path) -> TensorFile:
    """The layout of a safetensors file; its data stays on disk until it is looked at.

    Raises:
        BadCheckpoint: it is not safetensors: cut, or its header is no JSON or does not describe the whole file.
    """
    try:
        with file.open("rb") as stream:
            raw = np.frombuffer(mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ), dtype=np.uint8)
        length = int.from_bytes(raw[:8].tobytes(), "little")
        if raw.size < 8 or length > min(LONGEST_HEADER, raw.size - 8):
            raise ValueError(f"{raw.size} bytes hold no header")
        head = raw[: 8 + length].tobytes()
        return TensorFile(head, tuple(_tensors(head[8:], raw[8 + length :])))
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise BadCheckpoint(f"{file.name} is not a safetensors file: {error}") from error


def _tensors(header: bytes, data: NDArray[np.uint8]) -> Iterator[Tensor]:
    raw = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
    entries = {name: msgspec.json.decode(raw[name], type=_Entry) for name in raw if name != "__metadata__"}
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets):
        start, stop = entry.data_offsets
        if start != end or stop < start:
            raise ValueError(f"tensor {name} begins at {start}, the one before it ends at {end}")
        end, width = stop, np.dtype(EXPONENTS[entry.dtype][0]).itemsize if entry.dtype in EXPONENTS else None
        if width and width * math.prod(entry.shape) != stop - start:
            raise ValueError(f"tensor {name} of shape {entry.shape} has {stop - start} bytes")
        yield Tensor(name, entry.dtype, entry.shape, data[start:stop])
    if end != data.size:
        raise ValueError(f"{data.size} bytes of data, its header describes {end}")


def facts_of(tensors: Mapping[str, Tensor]) -> dict[str, TensorFact]:
    """Type, shape and checksum of every tensor.

    Raises:
        NotFinite: a tensor holds NaN or infinite values.
    """
    for tensor in tensors.values():
        if count := not_finite(tensor):
            raise NotFinite(f"tensor {tensor.name} has {count} values that are NaN or infinite")
    return {name: TensorFact(t.dtype, t.shape, t.data.size, sha256_of(t.data)) for name, t in tensors.items()}


def not_finite(tensor: Tensor) -> int:
    """How many values are NaN or infinite; 0 for types that are not floating."""
    if tensor.dtype not in EXPONENTS:
        return 0
    exponent, bits = EXPONENTS[tensor.dtype][1], tensor.bits()
    return sum(
        int(np.count_nonzero((bits[at : at + CHUNK] & exponent) == exponent)) for at in range(0, bits.size, CHUNK)
    )


def sha256_of(data: NDArray[np.uint8]) -> str:
    """The checksum of some bytes."""
    return hashlib.sha256(data.data).hexdigest()
