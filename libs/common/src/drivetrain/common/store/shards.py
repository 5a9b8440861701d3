"""A safetensors file as the difference to a parent's tensors, and back: the same file, byte for byte.

Layout: `MAGIC`, then frames of a little-endian uint32 length and a msgpack value: first the file's own head, then for
each tensor, in the order of the data, its pieces of at most `CHUNK` values.
"""

import hashlib
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np

from drivetrain.common.store.deltas import BadPiece, Piece, apply, change, whole
from drivetrain.common.store.errors import BadCheckpoint, WrongChecksum
from drivetrain.common.store.tensors import CHUNK, EXPONENTS, Bits, Tensor, TensorFile

MAGIC = b"DRVDELT1"


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """The bytes before the data, and for each tensor its name, type and number of pieces."""

    head: bytes
    tensors: list[tuple[str, str, int]]


def write_delta(child: TensorFile, parent: Mapping[str, Tensor], target: BinaryIO) -> None:
    """Write what makes the file `child` out of the parent's tensors; those that the parent lacks are written whole."""
    target.write(MAGIC)
    names = [(tensor.name, tensor.dtype, -(-tensor.bits().size // CHUNK)) for tensor in child.tensors]
    _write_frame(target, _Head(child.head, names))
    for tensor in child.tensors:
        before = parent.get(tensor.name)
        for piece in _pieces(tensor.bits(), before.bits() if before and before.like(tensor) else None):
            _write_frame(target, piece)


def apply_delta(delta: Path, parent: Mapping[str, Tensor], target: Path, sha256: str) -> None:
    """Write the file that `write_delta` was given, whose checksum is `sha256`.

    Raises:
        WrongChecksum: the delta is damaged, or these are not the tensors that it was made from.
    """
    digest = hashlib.sha256()
    try:
        with delta.open("rb") as source, target.open("wb") as out:
            for data in _rebuilt(source, parent):
                digest.update(data)
                out.write(data)
    except (BadPiece, msgspec.MsgspecError, struct.error) as error:
        raise WrongChecksum(f"the delta of {target.name} does not fit its parent: {error}") from error
    if digest.hexdigest() != sha256:
        raise WrongChecksum(f"{target.name} does not have the checksum of its manifest after its delta was applied")


def by_name(files: Mapping[str, TensorFile]) -> dict[str, Tensor]:
    """The tensors of some files.

    Raises:
        BadCheckpoint: two files hold a tensor of the same name.
    """
    found: dict[str, Tensor] = {}
    for file, content in files.items():
        for tensor in content.tensors:
            if tensor.name in found:
                raise BadCheckpoint(f"tensor {tensor.name} is in {file} and in another file")
            found[tensor.name] = tensor
    return found


def _pieces(child: Bits, parent: Bits | None) -> Iterator[Piece]:
    for at in range(0, child.size, CHUNK):
        part = child[at : at + CHUNK]
        yield whole(part) if parent is None else change(parent[at : at + CHUNK], part)


def _rebuilt(source: BinaryIO, parent: Mapping[str, Tensor]) -> Iterator[bytes]:
    if source.read(len(MAGIC)) != MAGIC:
        raise BadPiece("it is no delta")
    head = msgspec.msgpack.decode(_read_frame(source), type=_Head)
    yield head.head
    for name, kind, count in head.tensors:
        dtype = np.dtype(EXPONENTS.get(kind, (np.uint8, 0))[0])
        before = parent.get(name)
        bits = before.bits() if before and before.dtype == kind else None
        for index in range(count):
            piece = msgspec.msgpack.decode(_read_frame(source), type=Piece)
            yield apply(piece, None if bits is None else bits[index * CHUNK : (index + 1) * CHUNK], dtype).tobytes()


def _write_frame(target: BinaryIO, value: object) -> None:
    payload = msgspec.msgpack.encode(value)
    target.write(struct.pack("<I", len(payload)) + payload)


def _read_frame(source: BinaryIO) -> bytes:
    (length,) = struct.unpack("<I", source.read(4))
    return source.read(length)
