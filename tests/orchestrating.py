"""An orchestrator over a bus in memory, for tests of what it does with requests."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from drivetrain.common.bus.memory import MemoryBus
from drivetrain.common.events import Event, RolloutFinished, RolloutRef, RolloutRequested, RolloutStarted, Signal
from drivetrain.common.harnesses import load_harnesses
from drivetrain.orchestrator.backends.base import Backend
from drivetrain.orchestrator.backends.process.backend import ProcessBackend
from drivetrain.orchestrator.lifecycle.attempts import Attempts, Retries
from drivetrain.orchestrator.lifecycle.demand import Demand
from drivetrain.orchestrator.lifecycle.orchestrator import Ceilings, Orchestrator
from drivetrain.orchestrator.running.requests import Planner
from drivetrain.orchestrator.running.runner import Runner
from drivetrain.orchestrator.work_folder import fresh

SECRET = b"0123456789abcdef"
LIMIT_S = 30.0
T = TypeVar("T")
E = TypeVar("E", bound=Event)


class Service:
    """An orchestrator over a bus and a folder, and what a reader of the bus sees of it."""

    def __init__(
        self,
        bus: MemoryBus,
        folder: Path,
        concurrency: int = 2,
        per_run: int | None = None,
        backend: Backend | None = None,
        salvage: bool = True,
    ) -> None:
        self.bus, self.folder = bus, folder
        planner = Planner("http://proxy:1", SECRET, load_harnesses())
        self.backend = backend = backend or ProcessBackend(folder / "leases", grace_s=0.3)
        runner = Runner(backend, fresh(folder / "staging"), salvage)
        attempts = Attempts(bus, planner, runner, Retries(3, 0.05), time.time)
        self.demand = Demand(bus, max_staleness=1, ahead=None)
        ceilings = Ceilings(concurrency, per_run)
        self.orchestrator = Orchestrator(bus, backend, attempts, ceilings, self.demand, time.time)

    async def request(self, command: str | None, rollout: str = "o", run: str = "r", **task: object) -> None:
        data = {"name": "t", "instruction": "make it", "command": command, "verify": {"command": "true"}, **task}
        ref = RolloutRef(run=run, group="g", rollout=rollout, group_size=2)
        at = time.time()
        await self.bus.publish(RolloutRequested(rollout=ref, policy="p", task=data, timeout_s=20.0, at=at))

    async def finished(self, rollout: str = "o") -> RolloutFinished:
        return await until(lambda: self.one(f"rollout.finished.r.{rollout}", RolloutFinished))

    async def started(self, rollout: str = "o") -> RolloutStarted:
        return await until(lambda: self.one(f"rollout.started.r.{rollout}", RolloutStarted))

    async def one(self, subject: str, kind: type[E]) -> E | None:
        stored = await self.bus.get(kind.STREAM, subject)
        return stored.event if stored and isinstance(stored.event, kind) else None

    async def signal(self) -> Signal:
        stored = await self.bus.last("SIGNALS", "signal.outcome.>")
        assert len(stored) == 1
        assert isinstance(stored[0].event, Signal)
        return stored[0].event


def ended(pid: int) -> bool:
    """Whether a process has ended; one that nobody waited for yet has."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(LIMIT_S):
        while (found := await look()) is None:  # noqa: ASYNC110 - looks through the bus, as a client would
            await asyncio.sleep(0.01)
    return found


@asynccontextmanager
async def serving(service: Service) -> AsyncIterator[Service]:
    task = asyncio.create_task(service.orchestrator.serve())
    try:
        yield service
    finally:
        await service.orchestrator.drain(0.0)
        await task
