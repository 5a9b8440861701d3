"""What can be wrong with a checkpoint, and with a store: one type for each cause that a caller can tell apart."""


class NoSpace(OSError):
    """The disk cannot hold the checkpoint; the message tells how much is missing and where."""


class BadCheckpoint(ValueError):
    """A checkpoint that cannot be used. The message names the file or tensor and what is wrong with it."""


class NoCheckpoint(BadCheckpoint):
    """There is no such version here: it was never stored, or retention removed it."""


class MissingShard(BadCheckpoint):
    """A file that the manifest names is not there."""


class WrongChecksum(BadCheckpoint):
    """Bytes that are not those of the manifest."""


class OtherBase(BadCheckpoint):
    """The checkpoint belongs to another base model than the policy's other versions."""


class NotFinite(BadCheckpoint):
    """A tensor holds NaN or infinite values."""


class WrongShape(BadCheckpoint):
    """Tensors are missing, unknown, or of another shape than in the policy's other versions."""


class ParentGone(BadCheckpoint):
    """A delta whose parent is not in the archive, or is another than the one it was made from."""


class Conflict(BadCheckpoint):
    """Another checkpoint is stored under this version: versions are never reused."""


class StoreError(RuntimeError):
    """A store did not do what it was asked; the message names the store and what to do."""


class Absent(StoreError):
    """There is nothing under that key."""


class ReadOnly(StoreError):
    """The store does not let this process write."""


class Full(StoreError):
    """The store has no room left."""


class Unavailable(StoreError):
    """The store is away, too slow, or overloaded: worth another try."""
