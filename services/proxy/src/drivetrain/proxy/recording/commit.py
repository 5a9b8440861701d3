"""Waiting for the disk beside the event loop, together: one `fsync` for all replies that end meanwhile."""

import asyncio
import os
from collections.abc import Callable, Sequence

Commit = Callable[[], None]


class GroupCommit:
    """`begin` is called on the event loop and returns what makes all that was written until then last; that runs in a
    thread. One runs at a time: who comes meanwhile shares the next."""

    def __init__(self, begin: Callable[[], Commit]) -> None:
        self._begin = begin
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        """Wait until all that was written before the call will last.

        Raises:
            OSError: the disk failed.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
        await asyncio.shield(self._next)

    async def _after(self, running: "asyncio.Task[None] | None") -> None:
        if running is not None:
            await asyncio.wait((running,))
        self._running, self._next = self._next, None
        await asyncio.to_thread(self._begin())


def sync(files: Sequence[int]) -> None:
    """Make files last, and close them.

    Raises:
        OSError: the disk failed.
    """
    try:
        for file in files:
            os.fsync(file)
    finally:
        for file in files:
            os.close(file)
