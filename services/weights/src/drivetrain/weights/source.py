"""Where a version's weights come from: the trainer's folder, else the archive; version 0 is the base model's folder."""

import asyncio
from pathlib import Path

from drivetrain.common.store.archive import Archive
from drivetrain.common.store.checkpoints import CheckpointStore, Manifest, Probe, file_entry
from drivetrain.common.store.errors import BadCheckpoint
from drivetrain.weights.engines.base import Weights


class Source:
    """The versions of one policy: those in `store`, the folder that the trainer writes, and those in the archive."""

    def __init__(self, store: CheckpointStore, policy: str, archive: Archive | None = None) -> None:
        self.store = store
        self.policy = policy
        self.archive = archive

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

    def verified(self, version: int, digest: str | None = None) -> tuple[Weights, Probe]:
        """A version in the trainer's folder, all its checksums verified, also the manifest's own when `digest` is
        given. It reads whole files: call it off the event loop.

        Raises:
            BadCheckpoint: naming what is wrong.
        """
        manifest = self.store.manifest(self.policy, version)
        check(manifest, self.policy, version, digest)
        self.store.verify(manifest)
        return _weights(manifest, self.store.path(self.policy, version)), manifest.probe

    async def served(self, version: int) -> tuple[Weights, Probe | None]:
        """What a replica that serves a version loads, wherever it is. The base model has no probe.

        Raises:
            BadCheckpoint: it is nowhere, or damaged.
            StoreError: the archive does not answer.
            NoSpace: there is no room to read it out of the archive.
        """
        if version == 0:
            return await self._base(), None
        try:
            return await asyncio.to_thread(self.verified, version)
        except BadCheckpoint as error:
            if self.archive is None:
                raise
            return await self._archived(self.archive, version, error)

    async def _archived(self, archive: Archive, version: int, local: BadCheckpoint) -> tuple[Weights, Probe]:
        try:
            folder = await archive.materialise(version)
            manifest = archive.cache.manifest(self.policy, version)
            check(manifest, self.policy, version)
        except BadCheckpoint as error:
            raise BadCheckpoint(f"{local}; and {error}") from error
        return _weights(manifest, folder), manifest.probe

    async def _base(self) -> Weights:
        """The base model as version 0: the folder that the newest version names as its base."""
        remedy = "restart the replica to bring it back to its base model"
        if not (versions := await self.versions()):
            raise BadCheckpoint(f"the store does not know the base model of {self.policy}: {remedy}")
        weights = await asyncio.to_thread(_base, Path((await self._manifest(versions[-1])).base))
        if not weights.files:
            raise BadCheckpoint(f"the base model {weights.folder} is no folder with safetensors files here: {remedy}")
        return weights

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
    if manifest.kind != "full":
        raise BadCheckpoint(f"{name} is of kind {manifest.kind!r}: only full checkpoints can be rolled out")
    if digest is not None and manifest.digest() != digest:
        raise BadCheckpoint(f"the manifest of {name} is not the one that was announced")


def _weights(manifest: Manifest, folder: Path) -> Weights:
    return Weights(manifest.version, folder.absolute(), tuple(manifest.files))


def _base(folder: Path) -> Weights:
    files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    return Weights(0, folder.absolute(), tuple(file_entry(file) for file in files))
