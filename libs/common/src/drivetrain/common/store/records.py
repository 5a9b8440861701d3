"""What the archive says of one version: the trainer's manifest, and how its files are kept."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from drivetrain.common.store.checkpoints import Manifest
from drivetrain.common.store.errors import BadCheckpoint, OtherBase, WrongShape
from drivetrain.common.store.tensors import TensorFact

Kind = Literal["full", "adapter", "delta"]


class Blob(msgspec.Struct, frozen=True):
    """Stored bytes, named by their own checksum."""

    sha256: str
    size: int

    @property
    def key(self) -> str:
        """Where they are in the store."""
        return f"blobs/{self.sha256[:2]}/{self.sha256}"


class StoredFile(msgspec.Struct, frozen=True):
    """One file of the checkpoint: its own name, and the blob that it is made of, as it is or as a delta."""

    name: str
    delta: bool
    blob: Blob


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One version in the archive. A `delta` is applied to the version `checkpoint.parent`, whose manifest has the
    digest `parent_digest`; `depth` deltas lie between this one and a full one. `stored_at` is in unix seconds."""

    v: int = 1
    kind: Kind
    checkpoint: Manifest
    parent_digest: str | None = None
    depth: int = 0
    files: list[StoredFile]
    tensors: dict[str, TensorFact]
    stored_at: float

    @property
    def needs(self) -> int | None:
        """The version without which this one cannot be read."""
        return self.checkpoint.parent if self.kind == "delta" else None

    @property
    def stored_bytes(self) -> int:
        """Bytes in the store."""
        return sum(file.blob.size for file in self.files)

    @property
    def full_bytes(self) -> int:
        """Bytes of the checkpoint's files."""
        return sum(file.size for file in self.checkpoint.files)

    def encode(self) -> bytes:
        """The record as stored."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1)


def decode_record(data: bytes, where: str) -> Record:
    """A stored record.

    Raises:
        BadCheckpoint: it is damaged, or of a newer program.
    """
    try:
        record = msgspec.json.decode(data, type=Record)
    except msgspec.DecodeError as error:
        raise BadCheckpoint(f"{where} cannot be read: {error}") from error
    if record.v > 1:
        raise BadCheckpoint(f"{where} was written by a newer version of this program: upgrade")
    return record


def check_kinship(manifest: Manifest, tensors: Mapping[str, TensorFact], other: Record) -> None:
    """Check that a checkpoint can belong to the policy of another one.

    Raises:
        OtherBase: it has another base model.
        WrongShape: both are full, and their tensors differ in name or shape.
    """
    name, known = f"{manifest.policy}@{manifest.version}", other.checkpoint
    if manifest.base != known.base:
        raise OtherBase(
            f"{name} is of the base model {manifest.base}, {known.policy}@{known.version} of {known.base}: "
            "give another base model another policy"
        )
    if manifest.kind == "full" and other.kind != "adapter":
        _check_shapes(name, tensors, other.tensors)


def _check_shapes(name: str, got: Mapping[str, TensorFact], wanted: Mapping[str, TensorFact]) -> None:
    for tensor in sorted(got.keys() | wanted.keys()):
        if tensor not in got:
            raise WrongShape(f"tensor {tensor} is missing in {name}")
        if tensor not in wanted:
            raise WrongShape(f"tensor {tensor} of {name} is in no other version")
        if got[tensor].shape != wanted[tensor].shape:
            shapes = f"{list(got[tensor].shape)}, in the other versions {list(wanted[tensor].shape)}"
            raise WrongShape(f"tensor {tensor} of {name} has shape {shapes}")
