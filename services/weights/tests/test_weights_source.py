"""Checkpoints as the service reads them: complete, announced, or refused with the reason."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain.common.store.archive import Archive
from drivetrain.common.store.checkpoints import CheckpointStore, Manifest
from drivetrain.common.store.errors import BadCheckpoint
from drivetrain.weights.source import Source

Write = Callable[..., Manifest]


async def test_a_stored_version_comes_with_folder_files_and_probe(store: CheckpointStore, write: Write) -> None:
    manifest = write(3)
    source = Source(store, "main")
    target = await source.announced(3, manifest.digest())
    assert target == await source.target(3)
    assert (target.version, target.key, target.base) == (3, 3, None)
    assert (target.weights.folder / "model.safetensors").is_file()
    assert list(target.weights.files) == manifest.files
    assert target.probe == manifest.probe


async def test_changed_bytes_are_found(store: CheckpointStore, write: Write) -> None:
    write(3)
    file, source = store.path("main", 3) / "model.safetensors", Source(store, "main")
    await source.target(3)
    file.write_bytes(b"x" * file.stat().st_size)
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors does not have the checksum"):
        await source.target(3)


async def test_what_is_wrong_with_an_announced_version_is_told(store: CheckpointStore, write: Write) -> None:
    manifest = write(3)
    file, source = store.path("main", 3) / "model.safetensors", Source(store, "main")
    with pytest.raises(BadCheckpoint, match="not the one that was announced"):
        await source.announced(3, "0" * 64)
    with pytest.raises(BadCheckpoint, match="no checkpoint main@9"):
        await source.announced(9, manifest.digest())
    file.write_bytes(b"cut")
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors has 3 bytes, its manifest says"):
        await source.announced(3, manifest.digest())
    file.unlink()
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors is missing"):
        await source.announced(3, manifest.digest())


async def test_an_adapter_comes_with_the_weights_below_it(store: CheckpointStore, write: Write, base: Path) -> None:
    write(3)
    manifest = write(4, 3, kind="adapter", over=3)
    target = await Source(store, "main").announced(4, manifest.digest())
    assert (target.key, target.base) == ("main@4", await Source(store, "main").target(3))
    first = await Source(store, "main").announced(5, write(5, 0, kind="adapter").digest())
    assert first.base
    assert (first.base.version, first.base.weights.folder) == (0, base)


async def test_an_adapter_over_an_adapter_is_refused(store: CheckpointStore, write: Write) -> None:
    write(3, kind="adapter")
    with pytest.raises(BadCheckpoint, match="main@4 goes over version 3, an adapter itself"):
        await Source(store, "main").announced(4, write(4, 3, kind="adapter", over=3).digest())


async def test_replicas_that_read_the_archive_are_told_where_it_is(store: CheckpointStore, write: Write) -> None:
    manifest = write(3)
    weights = (await Source(store, "main", url="file:///archive").announced(3, manifest.digest())).weights
    assert (weights.archive, weights.policy, weights.digest) == ("file:///archive", "main", manifest.digest())


async def test_version_0_is_the_base_that_the_newest_version_names(
    store: CheckpointStore, write: Write, base: Path
) -> None:
    write(3)
    target = await Source(store, "main").target(0)
    assert (target.version, target.weights.folder, target.probe) == (0, base, None)
    assert [file.name for file in target.weights.files] == ["model.safetensors"]


async def test_a_base_from_a_hub_cannot_be_loaded_again(store: CheckpointStore, write: Write) -> None:
    write(3, base="organisation/model")
    with pytest.raises(BadCheckpoint, match="restart the replica"):
        await Source(store, "main").target(0)


async def test_an_empty_store_knows_no_base(store: CheckpointStore) -> None:
    with pytest.raises(BadCheckpoint, match="does not know the base model of main"):
        await Source(store, "main").target(0)


async def test_what_the_trainer_removed_is_served_from_the_archive(
    store: CheckpointStore, write: Write, archive: Archive
) -> None:
    manifest = write(3)
    await archive.add(manifest, store.path("main", 3), 0.0)
    file = (store.path("main", 3) / "model.safetensors").read_bytes()
    shutil.rmtree(store.path("main", 3))
    source = Source(store, "main", archive)
    assert (await source.versions(), await source.has(3), await source.has(4)) == ([3], True, False)
    target = await source.target(3)
    weights = target.weights
    assert (weights.folder / "model.safetensors").read_bytes() == file
    assert (list(weights.files), target.probe) == (manifest.files, manifest.probe)
    # Below the trainer's folder, where the replicas see it, and not among the versions that the trainer resumes from
    assert weights.folder.is_relative_to(store.root)
    assert store.versions("main") == []


async def test_what_the_disk_damaged_is_served_from_the_archive(
    store: CheckpointStore, write: Write, archive: Archive
) -> None:
    await archive.add(write(3), store.path("main", 3), 0.0)
    (store.path("main", 3) / "model.safetensors").write_bytes(b"damage")
    assert (await Source(store, "main", archive).target(3)).weights.folder == archive.cache.path("main", 3)


async def test_what_is_nowhere_is_told_with_both_places(store: CheckpointStore, archive: Archive) -> None:
    with pytest.raises(BadCheckpoint, match=r"no checkpoint main@9 under .*; and main@9 is not in the archive"):
        await Source(store, "main", archive).target(9)


async def test_the_base_is_known_from_the_archive_alone(
    store: CheckpointStore, write: Write, base: Path, archive: Archive
) -> None:
    await archive.add(write(3), store.path("main", 3), 0.0)
    shutil.rmtree(store.path("main", 3))
    assert (await Source(store, "main", archive).target(0)).weights.folder == base
