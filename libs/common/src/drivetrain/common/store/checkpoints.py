"""Checkpoints in a local folder: immutable, complete or absent, with a manifest of checksums.

Layout: `<root>/<policy>/<version, 8 digits>/` holds `manifest.json` and the files that it lists. A checkpoint is
written into a hidden folder beside it and appears by one rename, manifest included, so that a reader never sees half.
"""

import hashlib
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from drivetrain.common.store.errors import BadCheckpoint, MissingShard, NoCheckpoint, NoSpace, WrongChecksum

MANIFEST = "manifest.json"
CHUNK = 1 << 22


class FileEntry(msgspec.Struct, frozen=True):
    """One file of a checkpoint. `size` is in bytes."""

    name: str
    size: int
    sha256: str


class Probe(msgspec.Struct, frozen=True):
    """Fixed token ids, and the trainer's own log p(token t | tokens < t) for t ≥ 1: what a replica must reproduce."""

    token_ids: list[int]
    logprobs: list[float]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint is. `parent` is the version it was trained from; 0 is the base model's folder. An adapter goes
    `over` a full version's weights. `trained` are the lowest and the highest sequence number, in the SCORES stream, of
    what was trained since the parent."""

    policy: str
    version: int
    parent: int
    kind: Literal["full", "adapter"] = "full"
    over: int = 0
    base: str
    dtype: str
    step: int
    files: list[FileEntry]
    probe: Probe
    metrics: dict[str, float] = {}
    trained: tuple[int, int] | None = None
    created_at: float

    def encode(self) -> bytes:
        """The manifest as stored, byte for byte."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    def digest(self) -> str:
        """sha256 of the stored manifest: names the checkpoint's whole content."""
        return hashlib.sha256(self.encode()).hexdigest()


class CheckpointStore:
    """The checkpoints under one root folder, shared by trainer and weights service."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, policy: str, version: int) -> Path:
        """The folder of a checkpoint, whether it exists or not."""
        return self.root / policy / f"{version:08d}"

    def versions(self, policy: str) -> list[int]:
        """Stored versions, ascending."""
        folder = self.root / policy
        names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        return sorted(int(name) for name in names if name.isdigit() and (folder / name / MANIFEST).is_file())

    def manifest(self, policy: str, version: int) -> Manifest:
        """Read a manifest.

        Raises:
            NoCheckpoint: there is none.
            BadCheckpoint: it cannot be read.
        """
        file = self.path(policy, version) / MANIFEST
        try:
            return msgspec.json.decode(file.read_bytes(), type=Manifest)
        except FileNotFoundError as error:
            raise NoCheckpoint(f"there is no checkpoint {policy}@{version} under {self.root}") from error
        except msgspec.DecodeError as error:
            raise BadCheckpoint(f"the manifest of {policy}@{version} cannot be read: {error}") from error

    @contextmanager
    def writing(self, policy: str, version: int, expected_bytes: int) -> Iterator[Path]:
        """A fresh folder to write the checkpoint's files into; nothing is visible until `commit`. It is removed if
        it was not committed.

        Raises:
            NoSpace: less than `expected_bytes` are free; checked before anything is written.
        """
        folder = self.root / policy / f".{version:08d}.writing"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        free = shutil.disk_usage(folder).free
        try:
            if free < expected_bytes:
                raise NoSpace(
                    f"checkpoint {policy}@{version} needs {expected_bytes / 1e6:.0f} MB but only {free / 1e6:.0f} MB "
                    f"are free under {self.root}: free space there or move the store"
                )
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def commit(self, folder: Path, manifest: Manifest) -> Path:
        """Make a written folder the checkpoint of its version.

        Raises:
            FileExistsError: that version exists; versions are never reused.
        """
        target = self.path(manifest.policy, manifest.version)
        if target.exists():
            raise FileExistsError(f"{manifest.policy}@{manifest.version} exists already: versions are never reused")
        (folder / MANIFEST).write_bytes(manifest.encode())
        for file in folder.iterdir():
            _sync(file)
        folder.rename(target)
        _sync(target.parent)
        return target

    def verify(self, manifest: Manifest) -> None:
        """Check that every file is there with the size and sha256 of the manifest; see `verify_files` for errors."""
        verify_files(self.path(manifest.policy, manifest.version), manifest.files)

    def keep_last(self, policy: str, count: int, pinned: Collection[int] = ()) -> list[int]:
        """Remove all but the newest `count` versions and the pinned ones; returns what was removed."""
        removable = [v for v in self.versions(policy)[:-count] if v not in pinned]
        for version in removable:
            shutil.rmtree(self.path(policy, version))
        return removable


def verify_files(folder: Path, files: Iterable[FileEntry], *, contents: bool = True) -> None:
    """Check that every file is in the folder with its size and, unless `contents` is false, its sha256.

    Raises:
        MissingShard, WrongChecksum: naming the file.
    """
    for entry in files:
        file = folder / entry.name
        if not file.is_file():
            raise MissingShard(f"{file} is missing")
        if file.stat().st_size != entry.size:
            raise WrongChecksum(f"{file} has {file.stat().st_size} bytes, its manifest says {entry.size}")
        if contents and file_entry(file).sha256 != entry.sha256:
            raise WrongChecksum(f"{file} does not have the checksum of its manifest")


def file_entry(file: Path) -> FileEntry:
    """A file's manifest entry, read from its bytes."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return FileEntry(file.name, file.stat().st_size, digest.hexdigest())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
