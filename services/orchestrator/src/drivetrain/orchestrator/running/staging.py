"""What is on its way into a lease or out of it lies in a local folder for a moment."""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from drivetrain.orchestrator.backends.base import BackendError, Lease
from drivetrain.orchestrator.running.trees import remove, write_files


class Staging:
    """Temporary folders below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def tree(self) -> Iterator[Path]:
        """An empty folder that is removed in the end.

        Raises:
            BackendError: the disk refuses it.
        """
        try:
            folder = Path(tempfile.mkdtemp(dir=self._folder))
        except OSError as error:
            raise BackendError(f"no temporary folder in {self._folder}: {error.strerror}") from error
        try:
            yield folder
        finally:
            remove(folder)

    async def put(self, lease: Lease, place: str, files: Mapping[str, bytes]) -> None:
        """Write files into a place of a lease.

        Raises:
            BackendError: a disk refuses.
        """
        if not files:
            return
        with self.tree() as folder:
            try:
                await asyncio.to_thread(write_files, folder, files)
            except OSError as error:
                raise BackendError(f"the task's files cannot be written: {error}") from error
            await lease.upload(folder, place)
