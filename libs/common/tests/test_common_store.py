from pathlib import Path

import pytest

from drivetrain.common.store import BadCheckpoint, CheckpointStore, Manifest, NoSpace, Probe, file_entry


def write(store: CheckpointStore, version: int, content: bytes = b"weights") -> Manifest:
    with store.writing("p", version, expected_bytes=len(content)) as folder:
        (folder / "model.safetensors").write_bytes(content)
        manifest = Manifest(
            policy="p",
            version=version,
            parent=version - 1,
            base="base",
            dtype="float32",
            step=version,
            files=[file_entry(folder / "model.safetensors")],
            probe=Probe([1, 2], [-0.5]),
            created_at=0.0,
        )
        store.commit(folder, manifest)
    return manifest


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path)


def test_a_committed_checkpoint_is_complete(store: CheckpointStore) -> None:
    manifest = write(store, 1)
    assert store.versions("p") == [1]
    assert store.manifest("p", 1) == manifest
    assert store.manifest("p", 1).digest() == manifest.digest()
    # printf weights | sha256sum
    assert manifest.files[0].sha256 == "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c"
    store.verify(manifest)


def test_an_abandoned_checkpoint_leaves_nothing(store: CheckpointStore) -> None:
    with store.writing("p", 1, expected_bytes=1) as folder:
        (folder / "model.safetensors").write_bytes(b"half")
    assert store.versions("p") == []
    assert list((store.root / "p").iterdir()) == []


def test_a_version_is_never_written_twice(store: CheckpointStore) -> None:
    write(store, 1)
    with pytest.raises(FileExistsError, match="never reused"):
        write(store, 1)


def test_a_full_disk_is_told_before_anything_is_written(store: CheckpointStore) -> None:
    with pytest.raises(NoSpace, match="free space there or move the store"), store.writing("p", 1, 1 << 60):
        pytest.fail("the block must not run")
    assert store.versions("p") == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.unlink(), "is missing"),
        (lambda file: file.write_bytes(b"short"), "has 5 bytes, its manifest says 7"),
        (lambda file: file.write_bytes(b"Weights"), "checksum"),
    ],
)
def test_damage_is_found_and_named(store: CheckpointStore, damage: object, message: str) -> None:
    manifest = write(store, 1)
    damage(store.path("p", 1) / "model.safetensors")  # type: ignore[operator]
    with pytest.raises(BadCheckpoint, match=message):
        store.verify(manifest)


def test_a_missing_checkpoint_is_named(store: CheckpointStore) -> None:
    with pytest.raises(BadCheckpoint, match="no checkpoint p@7"):
        store.manifest("p", 7)


def test_an_unreadable_manifest_is_named(store: CheckpointStore) -> None:
    write(store, 1)
    (store.path("p", 1) / "manifest.json").write_text("{")
    with pytest.raises(BadCheckpoint, match="manifest of p@1 cannot be read"):
        store.manifest("p", 1)


def test_retention_keeps_the_newest_and_the_pinned(store: CheckpointStore) -> None:
    for version in range(1, 6):
        write(store, version)
    assert store.keep_last("p", 2, pinned={1}) == [2, 3]
    assert store.versions("p") == [1, 4, 5]
