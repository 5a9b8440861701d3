"""Bytes and seconds of one delta, through the code that the archive uses."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import save_file

from benchmarks.weights.training import Weights
from drivetrain.common.store import Manifest, Probe, file_entry
from drivetrain.common.store.packing import Packed, Parent, pack, unpack
from drivetrain.common.store.records import Record

T = TypeVar("T")
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


@dataclass(frozen=True)
class Measured:
    """One pair of neighbouring versions. `pack_s` includes the checksums of all tensors and the search for NaN,
    `apply_s` the reading of the parent and the checksum of the result."""

    dtype: str
    learning_rate: float
    changed_share: float
    full_bytes: int
    delta_bytes: int
    pack_s: float
    apply_s: float


def measure(before: Weights, after: Weights, dtype: str, learning_rate: float, folder: Path) -> Measured:
    """Store `after` as a delta of `before` and read it back, byte for byte (or this raises). `folder` is empty."""
    old, new = ({name: value.to(DTYPES[dtype]) for name, value in one.items()} for one in (before, after))
    changed = sum(int((old[name] != new[name]).sum()) for name in old)
    values = sum(value.numel() for value in old.values())
    first, second = _write(1, old, folder), _write(2, new, folder)
    parent = Parent(pack(first, folder / "1", None, None, folder, 0.0).record, folder / "1")
    packed, pack_s = _timed(lambda: pack(second, folder / "2", parent, parent.record, folder, 0.0))
    blobs = _blobs(packed, folder / "blobs")
    again = folder / "again"
    again.mkdir()
    _, apply_s = _timed(lambda: unpack(packed.record, blobs, folder / "1", again))
    record: Record = packed.record
    return Measured(dtype, learning_rate, changed / values, record.full_bytes, record.stored_bytes, pack_s, apply_s)


def _write(version: int, weights: Weights, folder: Path) -> Manifest:
    place = folder / str(version)
    place.mkdir()
    save_file(weights, place / "model.safetensors")
    return Manifest(
        policy="p",
        version=version,
        parent=version - 1,
        base="base",
        dtype="",
        step=version,
        files=[file_entry(place / "model.safetensors")],
        probe=Probe([], []),
        created_at=0.0,
    )


def _blobs(packed: Packed, folder: Path) -> Path:
    """The blobs by their checksum, as they come out of a store."""
    folder.mkdir()
    for stored in packed.record.files:
        packed.blobs[stored.blob.key].rename(folder / stored.blob.sha256)
    return folder


def _timed(act: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    result = act()
    return result, time.perf_counter() - started
