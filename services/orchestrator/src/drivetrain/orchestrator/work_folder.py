"""The folder of one orchestrator: it belongs to one process at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drivetrain.orchestrator.running.trees import remove


class FolderInUse(RuntimeError):
    """Another orchestrator holds the work folder."""


def fresh(folder: Path) -> Path:
    """An empty folder, whatever an earlier life left there."""
    remove(folder)
    folder.mkdir(parents=True)
    return folder


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold the work folder for this process alone; the kernel lets go of it when the process dies.

    Raises:
        FolderInUse: another orchestrator runs on it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUse(f"{folder} belongs to a running orchestrator: set another work_folder") from error
        yield
