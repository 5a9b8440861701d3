"""A replica reads versions out of an archive by itself: of a delta only the delta, and nothing that is not right."""

import asyncio
from pathlib import Path

import pytest

from drivetrain.common.store import CheckpointStore, Manifest
from drivetrain.common.store.archive import Archive
from drivetrain.common.store.blobs.local import LocalBlobs
from drivetrain.common.store.errors import StoreError
from drivetrain.vllm_plugin.archive import cache, fetch
from drivetrain.vllm_plugin.checkpoint import BadCheckpoint
from tests.stores import stepped, weights, write_checkpoint


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[int, Manifest]:
    """Versions 1 to 3 in an archive in a folder, each a small step from the one before."""
    monkeypatch.setenv("DRIVETRAIN_WEIGHTS_CACHE", str(tmp_path / "replica"))
    local, tensors, made = CheckpointStore(tmp_path / "trainer"), weights(), {}
    archive = Archive(LocalBlobs(tmp_path / "archive"), "p", tmp_path / "service")
    for version in (1, 2, 3):
        made[version] = write_checkpoint(local, version, version - 1, tensors)
        asyncio.run(archive.add(made[version], local.path("p", version), 0.0))
        tensors = stepped(tensors)
    return made


def read(folder: Path, stored: dict[int, Manifest], version: int) -> tuple[Path, Manifest, int]:
    return fetch((folder / "archive").as_uri(), "p", version, stored[version].digest())


def test_after_the_first_version_only_deltas_come_over_the_network(tmp_path: Path, stored: dict[int, Manifest]) -> None:
    full = sum(entry.size for entry in stored[1].files)
    _, _, first = read(tmp_path, stored, 1)
    folder, manifest, second = read(tmp_path, stored, 2)
    assert first == full
    assert 0 < second < full / 2
    assert manifest == stored[2]
    for entry in manifest.files:
        assert (folder / entry.name).read_bytes() == (tmp_path / "trainer/p/00000002" / entry.name).read_bytes()
    assert read(tmp_path, stored, 2)[2] == 0


def test_the_machine_keeps_the_served_version_and_the_one_before(tmp_path: Path, stored: dict[int, Manifest]) -> None:
    for version in (1, 2, 3):
        read(tmp_path, stored, version)
    assert CheckpointStore(cache()).versions("p") == [2, 3]


def test_another_version_than_the_announced_one_is_refused(tmp_path: Path, stored: dict[int, Manifest]) -> None:
    with pytest.raises(BadCheckpoint, match=r"p@2 in the archive .* is not the version that was announced"):
        fetch((tmp_path / "archive").as_uri(), "p", 2, stored[1].digest())


def test_a_collected_version_is_refused_and_says_which_are_there(tmp_path: Path, stored: dict[int, Manifest]) -> None:
    with pytest.raises(BadCheckpoint, match=r"p@9 is not in the archive .* Stored versions: 1, 2, 3"):
        fetch((tmp_path / "archive").as_uri(), "p", 9, stored[1].digest())


def test_an_archive_that_is_away_is_not_the_versions_fault(stored: dict[int, Manifest]) -> None:
    with pytest.raises(StoreError):
        fetch("nats://127.0.0.1:1/bucket", "p", 1, stored[1].digest())
