"""Checkpoints as the service reads them: complete, announced, or refused with the reason."""

from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain.common.store.checkpoints import BadCheckpoint, CheckpointStore, Manifest
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
    (store.path("main", 3) / "model.safetensors").write_bytes(b"x" * 64)
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


def test_version_0_is_the_base_that_the_newest_version_names(store: CheckpointStore, write: Write, base: Path) -> None:
    write(3)
    weights = Source(store, "main").base()
    assert (weights.version, weights.folder) == (0, base)
    assert [file.name for file in weights.files] == ["model.safetensors"]


def test_a_base_from_a_hub_cannot_be_loaded_again(store: CheckpointStore, write: Write) -> None:
    write(3, base="organisation/model")
    with pytest.raises(BadCheckpoint, match="restart the replica"):
        Source(store, "main").base()


def test_an_empty_store_knows_no_base(store: CheckpointStore) -> None:
    with pytest.raises(BadCheckpoint, match="does not know the base model of main"):
        Source(store, "main").base()
