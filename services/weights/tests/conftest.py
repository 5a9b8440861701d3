"""A checkpoint store with small checkpoints of random values, and an archive in memory."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from drivetrain.common.store.archive import Archive
from drivetrain.common.store.checkpoints import CheckpointStore, Manifest, Probe, file_entry
from tests.stores import MemoryBlobs
from tests.weights_stage import Stage

Write = Callable[..., Manifest]


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "store")


@pytest.fixture
def archive(store: CheckpointStore) -> Archive:
    """As the service opens it, in memory."""
    return Archive(MemoryBlobs(), "main", store.root / ".archive")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"base weights")
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def write(store: CheckpointStore, base: Path) -> Write:
    """Write a checkpoint of a version; keywords replace fields of its manifest."""

    def write_checkpoint(version: int, parent: int = 0, **fields: object) -> Manifest:
        with store.writing("main", version, 1024) as folder:
            save_file({"t": np.random.default_rng().random(8, np.float32)}, folder / "model.safetensors")
            given: dict[str, object] = {
                "policy": "main",
                "version": version,
                "parent": parent,
                "base": str(base),
                "dtype": "float32",
                "step": version,
                "files": [file_entry(folder / "model.safetensors")],
                "probe": Probe([5, 6, 7], [-1.0, -float(version)]),
                "created_at": 0.0,
            }
            manifest = Manifest(**{**given, **fields})  # type: ignore[arg-type]
            store.commit(folder, manifest)
        return manifest

    return write_checkpoint


@pytest.fixture
async def stage(store: CheckpointStore, write: Write) -> Stage:
    """Two replicas, and the service started over them."""
    made = Stage(store, write)
    await made.start()
    return made
