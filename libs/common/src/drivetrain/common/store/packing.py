"""A checkpoint's files as blobs of the archive, and back. Blocking: call it off the event loop."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from drivetrain.common.store.checkpoints import FileEntry, Manifest, file_entry, verify_files
from drivetrain.common.store.errors import BadCheckpoint, WrongChecksum
from drivetrain.common.store.records import Blob, Record, StoredFile, check_kinship
from drivetrain.common.store.shards import apply_delta, by_name, write_delta
from drivetrain.common.store.tensors import Tensor, TensorFile, facts_of, read_file

SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Packed:
    """A record and, by key, the files that hold its blobs."""

    record: Record
    blobs: dict[str, Path]


@dataclass(frozen=True)
class Parent:
    """The version that a delta can be made from: its record, and a folder with its files."""

    record: Record
    folder: Path


def pack(
    manifest: Manifest, folder: Path, parent: Parent | None, relative: Record | None, scratch: Path, now: float
) -> Packed:
    """What is to be stored of a checkpoint in `folder`: the delta to its parent if there is one and it is smaller.
    `relative` is another version of the policy, if any; deltas are written into `scratch`.

    Raises:
        NotFinite, OtherBase, WrongShape: it must not be stored.
        BadCheckpoint: a file is not what its name says.
    """
    files = _read(folder, manifest.files)
    tensors = facts_of(by_name(files))
    if relative:
        check_kinship(manifest, tensors, relative)
    whole = [StoredFile(entry.name, False, Blob(entry.sha256, entry.size)) for entry in manifest.files]
    paths = {stored.blob.key: folder / stored.name for stored in whole}
    record = Record(kind=manifest.kind, checkpoint=manifest, files=whole, tensors=tensors, stored_at=now)
    if not parent:
        return Packed(record, paths)
    deltas = _deltas(files, by_name(_read(parent.folder, parent.record.checkpoint.files)), scratch)
    changed = [deltas[stored.name][0] if stored.name in deltas else stored for stored in whole]
    small = Record(
        kind="delta",
        checkpoint=manifest,
        parent_digest=parent.record.checkpoint.digest(),
        depth=parent.record.depth + 1,
        files=changed,
        tensors=tensors,
        stored_at=now,
    )
    if small.stored_bytes >= record.stored_bytes:
        return Packed(record, paths)
    return Packed(small, paths | {stored.blob.key: file for stored, file in deltas.values()})


def unpack(record: Record, blobs: Path, parent: Path | None, into: Path) -> None:
    """Write a version's files into `into`. `blobs` holds its blobs by checksum, `parent` the files of what it needs.

    Raises:
        WrongChecksum, MissingShard: a blob or a file is not what the record says.
    """
    tensors: dict[str, Tensor] = {}
    if parent is not None:
        names = [file.name for file in sorted(parent.iterdir()) if file.name.endswith(SUFFIX)]
        tensors = by_name({name: read_file(parent / name) for name in names})
    checksums = {entry.name: entry.sha256 for entry in record.checkpoint.files}
    for stored in record.files:
        if Path(stored.name).name != stored.name or stored.name not in checksums:
            raise BadCheckpoint(f"the record of version {record.checkpoint.version} has a file named {stored.name!r}")
        blob = blobs / stored.blob.sha256
        if file_entry(blob).sha256 != stored.blob.sha256:
            raise WrongChecksum(f"the blob of {stored.name} of version {record.checkpoint.version} is damaged")
        if stored.delta:
            apply_delta(blob, tensors, into / stored.name, checksums[stored.name])
            blob.unlink()
        else:
            blob.rename(into / stored.name)
    verify_files(into, record.checkpoint.files)


def _read(folder: Path, files: Iterable[FileEntry]) -> dict[str, TensorFile]:
    return {entry.name: read_file(folder / entry.name) for entry in files if entry.name.endswith(SUFFIX)}


def _deltas(
    files: dict[str, TensorFile], parent: dict[str, Tensor], scratch: Path
) -> dict[str, tuple[StoredFile, Path]]:
    """By file name, what a delta of it is stored as, and where it was written."""
    made = {}
    for name, content in files.items():
        file = scratch / f"{name}.delta"
        with file.open("wb") as out:
            write_delta(content, parent, out)
        entry = file_entry(file)
        made[name] = (StoredFile(name, True, Blob(entry.sha256, entry.size)), file)
    return made
