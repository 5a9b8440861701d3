"""Versions out of an archive: only what this machine does not have comes over the network, deltas above all.

What was read is kept in a folder of this machine, `DRIVETRAIN_WEIGHTS_CACHE`; the version that is served lies there,
and the next one is its delta. Several workers of one server share the folder.
"""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drivetrain.common.store.archive import Archive
from drivetrain.common.store.blobs import open_blobs
from drivetrain.common.store.checkpoints import Manifest
from drivetrain.common.store.errors import BadCheckpoint as BadVersion
from drivetrain.vllm_plugin.checkpoint import BadCheckpoint

KEPT = 2
"""Versions that stay on this machine: the one that is served, and the one before it."""


def cache() -> Path:
    """The folder of versions on this machine."""
    return Path(os.environ.get("DRIVETRAIN_WEIGHTS_CACHE") or Path.home() / ".cache" / "drivetrain" / "weights")


def fetch(url: str, policy: str, version: int, digest: str) -> tuple[Path, Manifest, int]:
    """The folder of a version with all its files, its manifest, and the bytes that were fetched for it.

    Raises:
        BadCheckpoint: it is not stored, damaged, or another one than the digest says.
        StoreError: the archive does not answer.
    """
    with _alone(cache()):
        try:
            return asyncio.run(_fetch(url, policy, version, digest))
        except BadVersion as error:
            raise BadCheckpoint(str(error)) from error


async def _fetch(url: str, policy: str, version: int, digest: str) -> tuple[Path, Manifest, int]:
    blobs = open_blobs(url)
    try:
        archive = Archive(blobs, policy, cache())
        manifest = (await archive.record(version)).checkpoint
        if manifest.digest() != digest:
            raise BadCheckpoint(f"{policy}@{version} in the archive {url} is not the version that was announced")
        folder = await archive.materialise(version)
        if manifest.kind == "full":
            archive.cache.keep_last(policy, KEPT, {version})
        return folder, manifest, archive.fetched_bytes
    finally:
        await blobs.close()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
