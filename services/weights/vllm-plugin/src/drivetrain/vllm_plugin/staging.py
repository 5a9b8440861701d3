"""Checkpoints made ready beside running requests: fetched, read, checked; the pause then has only the swap in it."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from drivetrain.vllm_plugin.checkpoint import BadCheckpoint, FileEntry, TensorEntry

Look = tuple[int, int, int]


@dataclass(frozen=True)
class Wanted:
    """A checkpoint to load. Its files lie in `folder`; or the `archive` (a URL) has them as version `version` of
    `policy`, whose manifest has the sha256 `digest`. `kind` is `full` or `adapter`."""

    folder: str = ""
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    kind: str = "full"
    archive: str = ""
    policy: str = ""
    version: int = 0
    digest: str = ""


@dataclass(frozen=True)
class Ready:
    """A checkpoint that passed every check: its folder, its tensors, the sha256 of each file as it was read, the bytes
    that came over the network for it, and how the files looked then."""

    folder: Path
    tensors: Mapping[str, TensorEntry]
    digests: Mapping[str, str]
    fetched_bytes: int = 0
    looks: Mapping[Path, Look] = field(default_factory=dict)

    def untouched(self) -> bool:
        """Whether no file was replaced or written since it was read."""
        try:
            return all(look(file) == seen for file, seen in self.looks.items())
        except OSError:
            return False


def look(file: Path) -> Look:
    """What changes when a file is replaced or written.

    Raises:
        OSError: it is gone.
    """
    facts = file.stat()
    return (facts.st_ino, facts.st_size, facts.st_mtime_ns)


class Staging:
    """Makes one checkpoint ready at a time, in a thread of its own; a new one takes the place of the one before."""

    def __init__(self, prepare: Callable[[Wanted], Ready]) -> None:
        self._prepare = prepare
        self._wanted: Wanted | None = None
        self._ready: Future[Ready] = Future()
        self._seconds = 0.0

    def begin(self, wanted: Wanted) -> None:
        """Start on a checkpoint, unless it is in work or ready already; one that failed is tried again."""
        if wanted == self._wanted and not (self._ready.done() and self._ready.exception()):
            return
        self._wanted, self._ready = wanted, Future()
        threading.Thread(target=self._run, args=(wanted, self._ready), name="drivetrain-staging", daemon=True).start()

    def status(self) -> dict[str, object]:
        """How far it is, as JSON: `state` is `idle`, `staging`, `ready`, `refused` (the checkpoint is at fault, for
        this `reason`) or `failed` (something else is)."""
        if self._wanted is None:
            return {"state": "idle"}
        if not self._ready.done():
            return {"state": "staging"}
        error = self._ready.exception()
        if error is not None:
            return {"state": "refused" if isinstance(error, BadCheckpoint) else "failed", "reason": str(error)}
        ready = self._ready.result()
        facts = {"fetched_bytes": ready.fetched_bytes, "seconds": self._seconds}
        return {"state": "ready", "folder": str(ready.folder), "digests": dict(ready.digests), **facts}

    def take(self, wanted: Wanted) -> Ready:
        """The checkpoint, ready; what was not staged, or changed on disk since, is made ready now.

        Raises:
            BadCheckpoint: it must not be loaded.
        """
        if wanted == self._wanted:
            ready, self._wanted = self._ready.result(), None
            if ready.untouched():
                return ready
        return self._prepare(wanted)

    def _run(self, wanted: Wanted, ready: "Future[Ready]") -> None:
        started = time.monotonic()
        try:
            made = self._prepare(wanted)
        except BaseException as error:  # noqa: BLE001 - whoever waits for the checkpoint gets it
            ready.set_exception(error)
            return
        self._seconds = time.monotonic() - started
        ready.set_result(made)
