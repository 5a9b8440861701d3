"""Starts, watches, restarts and stops a set of processes that need one another."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from drivetrain.cli.supervisor.child import Child
from drivetrain.cli.supervisor.spec import (
    BAD_SETTINGS,
    EventKind,
    ProcessEvent,
    ProcessFailed,
    ProcessSpec,
    ProcessState,
    Restarts,
)

FIRST_POLL_S, LAST_POLL_S, POLL_GROWTH = 0.05, 1.0, 1.3
"""How often a check is asked: eagerly at first, then once a second, for a server may take minutes to load a model."""


class _Kept:
    """A process and all that is remembered about it between its restarts."""

    def __init__(self, spec: ProcessSpec, log: Path) -> None:
        self.spec = spec
        self.log = log
        self.child: Child | None = None
        self.ready = asyncio.Event()
        self.gone = asyncio.Event()
        self.crashes: list[float] = []
        self.state: EventKind | Literal["waiting"] = "waiting"
        self.began = 0.0


class Supervisor:
    """Keeps a set of processes running. Use `start`, then `wait`, and always `stop`."""

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        log_dir: Path,
        on_event: Callable[[ProcessEvent], None] = lambda event: None,
        restarts: Restarts | None = None,
    ) -> None:
        _check_needs(specs)
        self._kept = {spec.name: _Kept(spec, log_dir / f"{spec.name}.log") for spec in specs}
        self._on_event = on_event
        self._restarts = restarts or Restarts()
        self._keepers: list[asyncio.Task[None]] = []

    def states(self) -> Mapping[str, ProcessState]:
        """How every process stands, in the order of the specs."""
        return {
            name: ProcessState(kept.child.pid if kept.child else None, kept.state, len(kept.crashes), kept.log)
            for name, kept in self._kept.items()
        }

    async def start(self) -> None:
        """Start everything; returns when every process has passed its check.

        Raises:
            ProcessFailed: one was given up; the others still run until `stop`.
        """
        self._keepers = [asyncio.create_task(self._keep(kept), name=name) for name, kept in self._kept.items()]
        all_ready = asyncio.create_task(self._all_ready())
        try:
            await asyncio.wait([all_ready, *self._keepers], return_when=asyncio.FIRST_COMPLETED)
            self._raise_failure()
        finally:
            all_ready.cancel()

    async def wait(self) -> None:
        """Wait until a process is given up, and raise its ProcessFailed."""
        await asyncio.wait(self._keepers, return_when=asyncio.FIRST_EXCEPTION)
        self._raise_failure()

    async def stop(self, within_s: float = 8.0) -> None:
        """End every process, those first that no other needs; what is left after `within_s` seconds is killed."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        try:
            async with asyncio.timeout(within_s):
                await asyncio.gather(*(self._end(kept) for kept in self._kept.values()))
        except TimeoutError:
            pass
        finally:
            for kept in self._kept.values():
                if kept.child:
                    kept.child.kill_group()

    async def _all_ready(self) -> None:
        for kept in self._kept.values():
            await kept.ready.wait()

    def _raise_failure(self) -> None:
        for keeper in self._keepers:
            if keeper.done() and not keeper.cancelled():
                keeper.result()

    async def _keep(self, kept: _Kept) -> None:
        """Start, watch and restart one process for ever; raises ProcessFailed when it is given up."""
        for need in kept.spec.needs:
            await self._kept[need].ready.wait()
        while True:
            reason, final = await self._live(kept)
            now = time.monotonic()
            kept.crashes.append(now)
            delay = None if final else self._restarts.delay(kept.crashes, now)
            if delay is None:
                self._say(kept, "gave_up", reason)
                raise ProcessFailed(f"{kept.spec.name} {reason}", BAD_SETTINGS if final else 1)
            self._say(kept, "crashed", reason)
            await asyncio.sleep(delay)
            self._say(kept, "restarting", f"restart {len(kept.crashes)}")

    async def _live(self, kept: _Kept) -> tuple[str, bool]:
        """One life of a process: returns why it ended, and whether another start is useless."""
        kept.began = time.monotonic()
        try:
            kept.child = child = await Child.start(kept.spec, kept.log)
        except OSError as error:
            return f"cannot be started: {error}", True
        self._say(kept, "starting")
        ended = asyncio.create_task(child.wait())
        try:
            if not await self._becomes_ready(kept, ended):
                await child.stop(kept.spec.grace_s)
                return f"was not ready within {kept.spec.ready_s:.0f} s\n{_indented(child.tail())}", False
            status = await ended
        finally:
            ended.cancel()
        return f"ended with {_named(status)}; the end of {kept.log}:\n{_indented(child.tail())}", status == BAD_SETTINGS

    async def _becomes_ready(self, kept: _Kept, ended: "asyncio.Task[int]") -> bool:
        """True once the check passes or the process has ended, False when it took too long."""
        deadline = kept.began + kept.spec.ready_s
        pause = FIRST_POLL_S
        while not ended.done():
            if await kept.spec.check.passes() and not ended.done():
                kept.ready.set()
                self._say(kept, "ready")
                return True
            if time.monotonic() > deadline:
                return False
            await asyncio.wait([ended], timeout=pause)
            pause = min(pause * POLL_GROWTH, LAST_POLL_S)
        return True

    async def _end(self, kept: _Kept) -> None:
        for other in self._kept.values():
            if kept.spec.name in (*other.spec.needs, *other.spec.outlived_by):
                await other.gone.wait()
        if kept.child:
            kept.began = time.monotonic()
            self._say(kept, "stopping")
            await kept.child.stop(kept.spec.grace_s)
            self._say(kept, "stopped")
        kept.gone.set()

    def _say(self, kept: _Kept, kind: EventKind, message: str = "") -> None:
        kept.state = kind
        self._on_event(ProcessEvent(kept.spec.name, kind, message, time.monotonic() - kept.began))


def _check_needs(specs: Sequence[ProcessSpec]) -> None:
    """Refuse an order that cannot be: each process may only need earlier ones, so that there are no circles."""
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen:
            raise ValueError(f"two processes are named {spec.name}")
        if missing := {*spec.needs, *spec.outlived_by} - seen:
            raise ValueError(f"{spec.name} needs {', '.join(sorted(missing))}, which must come before it")
        seen.add(spec.name)


def _named(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()) or "    (it wrote nothing)"
