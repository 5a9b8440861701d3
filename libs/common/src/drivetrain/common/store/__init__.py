"""Where checkpoints live."""

from drivetrain.common.store.checkpoints import CheckpointStore, FileEntry, Manifest, Probe, file_entry
from drivetrain.common.store.errors import BadCheckpoint, NoSpace

__all__ = ["BadCheckpoint", "CheckpointStore", "FileEntry", "Manifest", "NoSpace", "Probe", "file_entry"]
