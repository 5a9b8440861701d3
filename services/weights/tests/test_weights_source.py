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


def test_a_stored_version_comes_with_folder_files_and_probe(store: CheckpointStore, write: Write) -> None:
    manifest = write(3)
    weights, probe = Source(store, "main").verified(3, manifest.digest())
    assert weights.version == 3
    assert (weights.folder / "model.safetensors").is_file()
    assert list(weights.files) == manifest.files
    assert probe.logprobs == [-1.0, -3.0]


def test_changed_bytes_are_found(store: CheckpointStore, write: Write) -> None:
    write(3)
    (store.path("main", 3) / "model.safetensors").write_bytes(b"x" * 96)
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors does not have the checksum"):
        Source(store, "main").verified(3)


def test_another_manifest_than_the_announced_one_is_refused(store: CheckpointStore, write: Write) -> None:
    write(3)
    with pytest.raises(BadCheckpoint, match="not the one that was announced"):
        Source(store, "main").verified(3, "0" * 64)


def test_an_adapter_is_refused_until_adapters_can_be_served(store: CheckpointStore, write: Write) -> None:
    write(3, kind="adapter")
    with pytest.raises(BadCheckpoint, match="only full checkpoints"):
        Source(store, "main").verified(3)


def test_a_missing_version_is_named(store: CheckpointStore) -> None:
    with pytest.raises(BadCheckpoint, match="no checkpoint main@9"):
        Source(store, "main").verified(9)


async def test_version_0_is_the_base_that_the_newest_version_names(
    store: CheckpointStore, write: Write, base: Path
) -> None:
    write(3)
    weights, probe = await Source(store, "main").served(0)
    assert (weights.version, weights.folder, probe) == (0, base, None)
    assert [file.name for file in weights.files] == ["model.safetensors"]


async def test_a_base_from_a_hub_cannot_be_loaded_again(store: CheckpointStore, write: Write) -> None:
    write(3, base="organisation/model")
    with pytest.raises(BadCheckpoint, match="restart the replica"):
        await Source(store, "main").served(0)


async def test_an_empty_store_knows_no_base(store: CheckpointStore) -> None:
    with pytest.raises(BadCheckpoint, match="does not know the base model of main"):
        await Source(store, "main").served(0)


async def test_what_the_trainer_removed_is_served_from_the_archive(
    store: CheckpointStore, write: Write, archive: Archive
) -> None:
    manifest = write(3)
    await archive.add(manifest, store.path("main", 3), 0.0)
    file = (store.path("main", 3) / "model.safetensors").read_bytes()
    shutil.rmtree(store.path("main", 3))
    source = Source(store, "main", archive)
    assert (await source.versions(), await source.has(3), await source.has(4)) == ([3], True, False)
    weights, probe = await source.served(3)
    assert (weights.folder / "model.safetensors").read_bytes() == file
    assert (list(weights.files), probe) == (manifest.files, manifest.probe)
    # Below the trainer's folder, where the replicas see it, and not among the versions that the trainer resumes from
    assert weights.folder.is_relative_to(store.root)
    assert store.versions("main") == []


async def test_what_the_disk_damaged_is_served_from_the_archive(
    store: CheckpointStore, write: Write, archive: Archive
) -> None:
    await archive.add(write(3), store.path("main", 3), 0.0)
    (store.path("main", 3) / "model.safetensors").write_bytes(b"damage")
    weights, _ = await Source(store, "main", archive).served(3)
    assert weights.folder == archive.cache.path("main", 3)


async def test_what_is_nowhere_is_told_with_both_places(store: CheckpointStore, archive: Archive) -> None:
    with pytest.raises(BadCheckpoint, match=r"no checkpoint main@9 under .*; and main@9 is not in the archive"):
        await Source(store, "main", archive).served(9)


async def test_the_base_is_known_from_the_archive_alone(
    store: CheckpointStore, write: Write, base: Path, archive: Archive
) -> None:
    await archive.add(write(3), store.path("main", 3), 0.0)
    shutil.rmtree(store.path("main", 3))
    assert (await Source(store, "main", archive).served(0))[0].folder == base
