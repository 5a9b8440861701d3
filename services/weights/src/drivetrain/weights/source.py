"""Where a version's weights come from: the trainer's folder, else the archive; version 0 is the base model's folder."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from drivetrain.common.store.archive import Archive
from drivetrain.common.store.checkpoints import CheckpointStore, Manifest, file_entry, verify_files
from drivetrain.common.store.errors import BadCheckpoint
from drivetrain.weights.engines.base import Weights
from drivetrain.weights.target import Target

Looks = tuple[tuple[str, int, int, int], ...]


class Source:
    """The versions of one policy: those in `store`, the folder that the trainer writes, and those in the archive. With
    `url`, replicas read everything but the base model out of the archive that is there."""

    def __init__(self, store: CheckpointStore, policy: str, archive: Archive | None = None, url: str = "") -> None:
        self.store = store
        self.policy = policy
        self.archive = archive
        self._url = url
        self._verified: dict[Path, Looks] = {}
        self._base_model: Weights | None = None

    async def versions(self) -> list[int]:
        """Versions that can be served, ascending.

        Raises:
            StoreError: the archive does not answer.
        """
        local = await asyncio.to_thread(self.store.versions, self.policy)
        return sorted({*local, *(await self.archive.versions() if self.archive else ())})

    async def has(self, version: int) -> bool:
        """Whether a version can be served; the archive is asked only if the trainer's folder does not have it.

        Raises:
            StoreError: the archive does not answer.
        """
        local = await asyncio.to_thread(self.store.versions, self.policy)
        return version in (0, *local) or version in await self.versions()

    async def announced(self, version: int, digest: str) -> Target:
        """A version just announced: the manifest with the digest, and every file there in its size. The replicas read
        the bytes and tell the checksums of what they read.

        Raises:
            BadCheckpoint: naming what is wrong.
            StoreError: an archive that is needed does not answer.
            NoSpace: there is no room to read what is needed out of the archive.
        """
        manifest = await asyncio.to_thread(self.store.manifest, self.policy, version)
        check(manifest, self.policy, version, digest)
        folder = self.store.path(self.policy, version)
        await asyncio.to_thread(verify_files, folder, manifest.files, contents=False)
        return await self._target(manifest, folder)

    async def target(self, version: int) -> Target:
        """What a replica that serves a version loads, wherever it is, all its checksums verified. The base model has
        no probe.

        Raises:
            BadCheckpoint: it is nowhere, or damaged.
            StoreError: the archive does not answer.
            NoSpace: there is no room to read it out of the archive.
        """
        if version == 0:
            return Target(await self._base(), None)
        try:
            manifest, folder = await asyncio.to_thread(self._whole, version)
        except BadCheckpoint as error:
            if self.archive is None:
                raise
            manifest, folder = await self._archived(self.archive, version, error)
        return await self._target(manifest, folder)

    async def _target(self, manifest: Manifest, folder: Path) -> Target:
        weights = Weights(
            manifest.version,
            folder,
            tuple(manifest.files),
            manifest.kind,
            manifest.over,
            manifest.policy,
            manifest.digest(),
            self._url,
        )
        base = await self.target(manifest.over) if manifest.kind == "adapter" else None
        if base is not None and base.weights.kind != "full":
            raise BadCheckpoint(
                f"{self.policy}@{manifest.version} goes over version {manifest.over}, an adapter itself"
            )
        return Target(weights, manifest.probe, base)

    def _whole(self, version: int) -> tuple[Manifest, Path]:
        manifest, folder = self.store.manifest(self.policy, version), self.store.path(self.policy, version)
        check(manifest, self.policy, version)
        seen = looks(folder, [entry.name for entry in manifest.files])
        if self._verified.get(folder) != seen:
            self.store.verify(manifest)
            self._verified[folder] = seen
        return manifest, folder

    async def _archived(self, archive: Archive, version: int, local: BadCheckpoint) -> tuple[Manifest, Path]:
        try:
            folder = await archive.materialise(version)
            manifest = archive.cache.manifest(self.policy, version)
            check(manifest, self.policy, version)
        except BadCheckpoint as error:
            raise BadCheckpoint(f"{local}; and {error}") from error
        return manifest, folder

    async def _base(self) -> Weights:
        """The base model as version 0: the folder that the newest version names as its base."""
        remedy = "restart the replica to bring it back to its base model"
        if not (versions := await self.versions()):
            raise BadCheckpoint(f"the store does not know the base model of {self.policy}: {remedy}")
        weights = await asyncio.to_thread(self._base_in, (await self._manifest(versions[-1])).base)
        if not weights.files:
            raise BadCheckpoint(f"the base model {weights.folder} is no folder with safetensors files here: {remedy}")
        return weights

    def _base_in(self, name: str) -> Weights:
        """A model's folder as weights; its checksums are computed when it is new or has changed."""
        folder = Path(name).absolute()
        files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
        seen = looks(folder, [file.name for file in files])
        if self._base_model is None or self._verified.get(folder) != seen:
            self._base_model = Weights(0, folder, tuple(file_entry(file) for file in files), policy=self.policy)
            self._verified[folder] = seen
        return self._base_model

    async def _manifest(self, version: int) -> Manifest:
        try:
            return await asyncio.to_thread(self.store.manifest, self.policy, version)
        except BadCheckpoint:
            if self.archive is None:
                raise
            return (await self.archive.record(version)).checkpoint


def check(manifest: Manifest, policy: str, version: int, digest: str | None = None) -> None:
    """Check that a manifest is that of a version that can be rolled out, and the one with the digest if it is given.

    Raises:
        BadCheckpoint: it is not.
    """
    name = f"{policy}@{version}"
    if (manifest.policy, manifest.version) != (policy, version):
        raise BadCheckpoint(f"the manifest of {name} is that of {manifest.policy}@{manifest.version}")
    if digest is not None and manifest.digest() != digest:
        raise BadCheckpoint(f"the manifest of {name} is not the one that was announced")


def looks(folder: Path, names: Iterable[str]) -> Looks:
    """What changes when one of some files is replaced or written; a missing one counts as well."""
    files = [folder / name for name in names if (folder / name).is_file()]
    return tuple((file.name, (facts := file.stat()).st_ino, facts.st_size, facts.st_mtime_ns) for file in files)
