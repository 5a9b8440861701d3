"""All versions of a policy in a store, immutable: full or as deltas, complete or absent.

Keys: `versions/<policy>/<version, 8 digits>.json` is a version's record and is written last, so that a version is
there when its record is; `blobs/<2 hex>/<sha256>` are the bytes; `pins/<policy>/<version>` marks what is never removed.
One process writes a policy's versions (its weights service); everybody may read, pin, and collect.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from drivetrain.common.store.blobs import Blobs
from drivetrain.common.store.checkpoints import CheckpointStore, FileEntry, Manifest, verify_files
from drivetrain.common.store.errors import (
    Absent,
    BadCheckpoint,
    Conflict,
    MissingShard,
    NoCheckpoint,
    ParentGone,
)
from drivetrain.common.store.packing import Packed, Parent, pack, unpack
from drivetrain.common.store.records import Record, decode_record

Find = Callable[[int], Path | None]
"""A folder with a version's files, if there is one on this machine already."""


def nowhere(version: int) -> Path | None:
    """No folder has any version."""
    return None


class Archive:
    """The archive of one policy. `cache` is a folder on this machine for versions that were read; at most
    `full_every` deltas follow one another before a version is stored full, which bounds the work of reading one.
    `fetched_bytes` counts what was read out of the store for whole versions.

    Every method raises StoreError when the store fails."""

    def __init__(self, blobs: Blobs, policy: str, cache: Path, full_every: int = 8) -> None:
        self.blobs = blobs
        self.policy = policy
        self.cache = CheckpointStore(cache)
        self.fetched_bytes = 0
        self._full_every = full_every
        self._reading = asyncio.Lock()

    def key(self, version: int) -> str:
        """Where a version's record is in the store."""
        return f"versions/{self.policy}/{version:08d}.json"

    async def versions(self) -> list[int]:
        """Stored versions, ascending."""
        found = await self.blobs.entries(f"versions/{self.policy}/")
        return sorted(int(Path(entry.key).stem) for entry in found)

    async def record(self, version: int) -> Record:
        """What is known of a version.

        Raises:
            NoCheckpoint: it is not stored.
            BadCheckpoint: its record is damaged.
        """
        key = self.key(version)
        try:
            return decode_record(await self.blobs.read(key), f"{self.blobs.url}/{key}")
        except Absent as error:
            stored = ", ".join(map(str, await self.versions())) or "none"
            raise NoCheckpoint(
                f"{self.policy}@{version} is not in the archive {self.blobs.url}: it was never stored, or it was "
                f"collected. Stored versions: {stored}"
            ) from error

    async def records(self) -> dict[int, Record]:
        """All records, by ascending version."""
        return {version: await self.record(version) for version in await self.versions()}

    async def add(self, manifest: Manifest, folder: Path, now: float, find: Find = nowhere) -> Record:
        """Store a checkpoint that lies in `folder`: as a delta of its parent if that is stored and the delta is the
        smaller one. Adding it again changes nothing. `find` may know where the parent's files are.

        Raises:
            Conflict: another checkpoint has this version.
            OtherBase, WrongShape: it does not belong to the policy's other versions.
            NotFinite, MissingShard, WrongChecksum: its files are not as they must be.
        """
        stored = await self.versions()
        if manifest.version in stored:
            return _same(await self.record(manifest.version), manifest)
        await asyncio.to_thread(verify_files, folder, manifest.files)
        relative = await self.record(manifest.parent if manifest.parent in stored else stored[-1]) if stored else None
        parent = await self._parent(manifest, relative, find)
        self.cache.root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".packing-", dir=self.cache.root) as scratch:
            packed = await asyncio.to_thread(pack, manifest, folder, parent, relative, Path(scratch), now)
            await self._upload(packed)
        return packed.record

    async def materialise(self, version: int) -> Path:
        """A folder of the cache with a version's files, complete and verified.

        Raises:
            NoCheckpoint: it is not stored.
            ParentGone: it is a delta, and what it needs is not stored any more.
            MissingShard, WrongChecksum: stored bytes are gone or damaged.
            NoSpace: the cache's disk is too full.
        """
        record = await self.record(version)
        folder = self.cache.path(self.policy, version)
        async with self._reading:
            if not await asyncio.to_thread(_whole, folder, record.checkpoint.files):
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                await self._rebuild(*await self._steps(record))
        return folder

    async def pin(self, version: int, now: float) -> None:
        """Keep a version whatever retention says.

        Raises:
            NoCheckpoint: it is not stored.
        """
        await self.record(version)
        await self.blobs.put(f"pins/{self.policy}/{version:08d}", str(now).encode())

    async def unpin(self, version: int) -> None:
        """Leave a version to retention again; one that is not pinned is no error."""
        await self.blobs.delete(f"pins/{self.policy}/{version:08d}")

    async def pins(self) -> set[int]:
        """Pinned versions."""
        return {int(Path(entry.key).name) for entry in await self.blobs.entries(f"pins/{self.policy}/")}

    async def _parent(self, manifest: Manifest, relative: Record | None, find: Find) -> Parent | None:
        """What a delta can be made from; None where the version must be stored whole."""
        if not relative or relative.checkpoint.version != manifest.parent:
            return None
        if {manifest.kind, relative.checkpoint.kind} != {"full"} or relative.depth >= self._full_every:
            return None
        found = find(manifest.parent)
        if found is not None and await asyncio.to_thread(_whole, found, relative.checkpoint.files):
            return Parent(relative, found)
        try:
            return Parent(relative, await self.materialise(manifest.parent))
        except BadCheckpoint:
            # A damaged parent must not keep its child from being stored: whole, the child needs nobody
            return None

    async def _upload(self, packed: Packed) -> None:
        """Blobs first, the record last. Blobs are put also when they are there: a collection may be about to remove
        them, and what it removed in the meantime is put again."""
        wanted = {file.blob.key for file in packed.record.files}
        for key in wanted:
            await self.blobs.put(key, packed.blobs[key])
        await self.blobs.put(self.key(packed.record.checkpoint.version), packed.record.encode())
        for key in wanted:
            if key not in {entry.key for entry in await self.blobs.entries(f"{key.rpartition('/')[0]}/")}:
                await self.blobs.put(key, packed.blobs[key])

    async def _steps(self, record: Record) -> tuple[Path | None, list[Record]]:
        """The records up to this one, each applied to the one before; the first to what lies in the folder, a version
        that is in the cache, or it is a whole one."""
        steps = [record]
        while (needed := steps[0].needs) is not None:
            name = f"{self.policy}@{steps[0].checkpoint.version} is a delta of version {needed}"
            try:
                parent = await self.record(needed)
            except NoCheckpoint as error:
                raise ParentGone(f"{name}, which is not in the archive {self.blobs.url} any more") from error
            if parent.checkpoint.digest() != steps[0].parent_digest:
                raise ParentGone(f"{name}, but the archive {self.blobs.url} has another version {needed}")
            folder = self.cache.path(self.policy, needed)
            if await asyncio.to_thread(_whole, folder, parent.checkpoint.files):
                return folder, steps
            steps.insert(0, parent)
        return None, steps

    async def _rebuild(self, before: Path | None, steps: list[Record]) -> None:
        target = steps[-1].checkpoint
        with self.cache.writing(self.policy, target.version, 3 * steps[-1].full_bytes) as scratch:
            for step in steps:
                into, blobs = scratch / str(step.checkpoint.version), scratch / "blobs"
                await asyncio.to_thread(_folders, into, blobs)
                await self._fetch(step, blobs)
                await asyncio.to_thread(unpack, step, blobs, before, into)
                if before and before.parent == scratch:
                    await asyncio.to_thread(shutil.rmtree, before)
                before = into
            await asyncio.to_thread(self.cache.commit, into, target)

    async def _fetch(self, record: Record, folder: Path) -> None:
        for file in record.files:
            try:
                await self.blobs.fetch(file.blob.key, folder / file.blob.sha256)
            except Absent as error:
                name = f"{file.name} of {self.policy}@{record.checkpoint.version}"
                raise MissingShard(f"{name} is missing in the archive {self.blobs.url}") from error
            self.fetched_bytes += file.blob.size


def _same(known: Record, manifest: Manifest) -> Record:
    if known.checkpoint.digest() != manifest.digest():
        name = f"{manifest.policy}@{manifest.version}"
        raise Conflict(f"another checkpoint is in the archive as {name}: versions are never reused")
    return known


def _folders(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(exist_ok=True)


def _whole(folder: Path, files: list[FileEntry]) -> bool:
    try:
        verify_files(folder, files)
    except BadCheckpoint:
        return False
    return True
