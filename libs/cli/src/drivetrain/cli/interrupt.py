"""Ctrl-C and SIGTERM for asynchronous commands: the first asks, the second insists."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def run_until_signal(work: Coroutine[Any, Any, None]) -> int:
    """Run a coroutine to its end; on SIGINT or SIGTERM cancel it and let it clean up (a second signal cancels the
    cleaning up as well).

    Returns: 0, or 128 + the signal's number. Exceptions of the work pass through.
    """
    return asyncio.run(_run(work))


async def _run(work: Coroutine[Any, Any, None]) -> int:
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def on_signal(signum: int) -> None:
        received.append(signum)
        task.cancel()

    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, on_signal, signum)
    try:
        await task
    except asyncio.CancelledError:
        if not received:
            raise
    return 128 + received[0] if received else 0
