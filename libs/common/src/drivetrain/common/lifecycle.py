"""How a service lives: start, be ready, drain on SIGTERM, end. One runner for all of them."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from drivetrain.common.errors import CannotStart
from drivetrain.common.settings import Settings
from drivetrain.common.telemetry.admin import serve_admin
from drivetrain.common.telemetry.logs import configure_logs, get_logger

Check = Callable[[], bool]

DRAIN_S = 7.0
"""Seconds that the parts of a service have to end by themselves after a stop."""


class Lifecycle:
    """What a service's main function is given: tasks that must not fail, readiness checks, and the wish to stop."""

    def __init__(self, group: asyncio.TaskGroup, stack: AsyncExitStack | None = None) -> None:
        self._group = group
        self._checks: dict[str, Check] = {}
        self._optional: dict[str, Check] = {}
        self._started = False
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.stack = stack or AsyncExitStack()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a part of the service in the background. If it raises, the whole service ends loudly. After a stop it
        has `DRAIN_S` seconds to end by itself (look at `stopping`), then it is cancelled."""
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def ready_when(self, name: str, check: Check) -> None:
        """Add a readiness condition: /readyz answers 503 and names it while it is false."""
        self._checks[name] = check

    def does_without(self, name: str, here: Check) -> None:
        """Add something that the service does its work without: /readyz names it while it is not here, and answers
        200 all the same."""
        self._optional[name] = here

    def without(self) -> list[str]:
        """The names of what is not here and is done without."""
        return [name for name, here in self._optional.items() if not here()]

    def unready(self) -> list[str]:
        """The names of the conditions that do not hold; `starting` and `stopping` are among them."""
        waiting = [name for name, check in self._checks.items() if not check()]
        own = [] if self._started else ["starting"]
        return own + waiting + (["stopping"] if self._stopping.is_set() else [])

    def started(self) -> None:
        """All parts are wired: readiness now depends on the conditions alone."""
        self._started = True

    def stop(self) -> None:
        """Ask the service to drain and end."""
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    async def until_stopped(self) -> None:
        """Wait for SIGTERM, SIGINT or `stop`."""
        await self._stopping.wait()

    async def drain(self) -> None:
        """Let the spawned tasks end by themselves, then cancel the rest."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=DRAIN_S)
        for task in set(self._tasks):
            task.cancel()


Main = Callable[[Lifecycle], Awaitable[None]]


def run(service: str, settings: Settings, main: Main) -> None:
    """Run a service until it is told to stop.

    `main` wires the service, spawns its parts, and returns when all is started; what it entered on
    `lifecycle.stack` is closed in reverse order after the stop. An exception anywhere ends the process with status 1
    and a traceback, or, for `CannotStart`, with its message alone.
    """
    configure_logs(service, settings.log)
    try:
        asyncio.run(_run(service, settings, main))
    except* CannotStart as group:
        for error in group.exceptions:
            get_logger(service).critical("cannot start", reason=str(error))
        raise SystemExit(1) from None


async def _run(service: str, settings: Settings, main: Main) -> None:
    log = get_logger(service)
    async with asyncio.TaskGroup() as group, AsyncExitStack() as stack:
        lifecycle = Lifecycle(group, stack)
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, lifecycle.stop)
        admin = await serve_admin(lifecycle, settings.admin)
        stack.callback(admin.cancel)
        await main(lifecycle)
        lifecycle.started()
        log.info("started")
        await lifecycle.until_stopped()
        log.info("draining")
        await lifecycle.drain()
    log.info("stopped")
