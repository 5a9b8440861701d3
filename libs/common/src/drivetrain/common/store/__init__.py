"""Where checkpoints live."""

from drivetrain.common.store.checkpoints import (
    BadCheckpoint,
    CheckpointStore,
    FileEntry,
    Manifest,
    NoSpace,
    Probe,
    file_entry,
)

__all__ = ["BadCheckpoint", "CheckpointStore", "FileEntry", "Manifest", "NoSpace", "Probe", "file_entry"]
