"""One stack at a time on one machine account.

The lock is the kernel's (flock), so that it ends with the process that held it, however that process died. A note
beside it says who holds it; a note without a held lock is what a killed run left behind.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from drivetrain.cli.errors import CliError


@dataclass(frozen=True)
class Holder:
    """Who runs, or ran, the stack."""

    pid: int
    run_dir: str
    started_at: float


@contextmanager
def hold_lock(folder: Path, run_dir: Path) -> Iterator[Holder | None]:
    """Be the one running stack; yields what a killed predecessor left, if anything.

    Raises:
        CliError: another process holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "up.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise CliError(_who_runs(read_holder(folder))) from None
    note = folder / "up.json"
    try:
        left = read_holder(folder)
        note.write_text(json.dumps(asdict(Holder(os.getpid(), str(run_dir), time.time()))))
        yield left
        note.unlink(missing_ok=True)
    finally:
        lock.release()


def require_free_lock(folder: Path) -> None:
    """Check that no stack runs, before anything is prepared for one.

    Raises:
        CliError: one does.
    """
    if is_held(folder):
        raise CliError(_who_runs(read_holder(folder)))


def is_held(folder: Path) -> bool:
    """Whether a live process runs the stack."""
    if not (folder / "up.lock").exists():
        return False
    lock = FileLock(folder / "up.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def read_holder(folder: Path) -> Holder | None:
    """The note of the present or the last, killed holder; None when there is none or it is damaged."""
    try:
        return Holder(**json.loads((folder / "up.json").read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _who_runs(holder: Holder | None) -> str:
    if holder is None:
        return "a stack is starting or running already: see `drivetrain status`"
    return (
        f"a stack is running already (pid {holder.pid}, run folder {holder.run_dir}): "
        f"see `drivetrain status`, or end it with Ctrl-C in its terminal or `kill {holder.pid}`"
    )
