"""Takes requests from the bus, runs as many at a time as there are slots for, each to its one end, and drains."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from drivetrain.common.bus.base import Bus, Consumer, Delivery, Subscription
from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.events import NewerVersion, RolloutCancel, RolloutRequested
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.telemetry.traces import trace
from drivetrain.orchestrator.backends.base import Backend
from drivetrain.orchestrator.lifecycle.attempts import Attempts, sandboxes
from drivetrain.orchestrator.lifecycle.demand import Demand
from drivetrain.orchestrator.lifecycle.recovery import resumed, unfinished
from drivetrain.orchestrator.lifecycle.waiting import Job, Waiting
from drivetrain.orchestrator.metrics import QUEUED, REDELIVERED, RUNNING
from drivetrain.orchestrator.running.requests import check_names

log = get_logger("orchestrator")

REQUESTS = Consumer("ROLLOUTS", "orchestrator", ("rollout.requested.>",))
CANCELS = Consumer("ROLLOUTS", "orchestrator-cancel", ("rollout.cancel.>",))
LOOK_S = 0.2
"""How long one look for a request waits; also how soon a stop is noticed."""
DEMAND_S = 1.0
MOST_WAITING = 20_000
"""Requests beyond this stay on the bus until there is room."""


@dataclass(frozen=True)
class Ceilings:
    """How many rollouts run at a time: in all, and of one run."""

    concurrency: int
    per_run: int | None = None


class Orchestrator:
    """Runs what is requested. `clock` gives unix seconds."""

    def __init__(
        self,
        bus: Bus,
        backend: Backend,
        attempts: Attempts,
        ceilings: Ceilings,
        demand: Demand,
        clock: Callable[[], float],
    ) -> None:
        self._bus, self._backend, self._attempts, self._demand, self._clock = bus, backend, attempts, demand, clock
        self._concurrency, self._waiting = ceilings.concurrency, Waiting(ceilings.per_run)
        self._running: dict[str, asyncio.Task[Job | None]] = {}
        self._known: set[str] = set()
        self._changed, self._stopped = asyncio.Event(), asyncio.Event()
        self._stopping = False
        self.serving = False

    async def serve(self) -> None:
        """Go on with what an earlier life left, then take requests until `drain`, or until a request of a newer schema
        comes: it stays in the stream, and `serving` is false from then on.

        Raises:
            BusError: the bus is gone for good.
            BackendError: what an earlier life left cannot be removed.
        """
        try:
            await self._recover()
            async with (
                self._bus.consume(REQUESTS) as requests,
                self._bus.consume(CANCELS) as cancels,
                asyncio.TaskGroup() as tasks,
            ):
                self.serving = True
                tasks.create_task(self._take_requests(requests))
                tasks.create_task(self._take_cancels(cancels))
                tasks.create_task(self._watch_demand())
                await self._start_jobs(tasks)
        finally:
            self.serving = False
            self._stopped.set()

    async def drain(self, patience_s: float) -> None:
        """Take no more requests, give running rollouts some time, and end the rest: the next life goes on with them."""
        self._stopping = True
        self._changed.set()
        try:
            await asyncio.wait_for(self._stopped.wait(), patience_s)
        except TimeoutError:
            for task in self._running.values():
                task.cancel()
            await self._stopped.wait()

    async def _recover(self) -> None:
        async for job in unfinished(self._bus, self._clock(), self._backend.outlives):
            self._known.add(job.name)
            self._waiting.put(job)
        found = list(self._waiting)
        keep = {name for job in found if job.started for name in sandboxes(job)}
        reaped = await self._backend.reap(frozenset(keep) if self._backend.outlives else frozenset())
        if found or reaped:
            log.warning("going on after an earlier life", rollouts=len(found), ended=reaped)

    async def _take_requests(self, subscription: Subscription) -> None:
        while not self._stopping:
            if len(self._waiting) >= MOST_WAITING:
                await asyncio.sleep(LOOK_S)
                continue
            try:
                for delivery in await subscription.fetch(64, LOOK_S):
                    with trace(delivery.headers):
                        await self._take(delivery)
            except NewerVersion as error:
                log.critical("taking no more requests", reason=str(error))
                self._stopping = True
        self._changed.set()

    async def _take(self, delivery: Delivery) -> None:
        """Put a request in the line, where it is new. It may be acknowledged: the next life reads the stream itself."""
        request = delivery.event
        assert isinstance(request, RolloutRequested)  # the consumer's subject holds nothing else
        try:
            check_names(request)
        except BadDeclaration as error:
            await delivery.dead(str(error))
            return
        name = f"{request.rollout.run}.{request.rollout.rollout}"
        job = None
        if name not in self._known:
            job = await resumed(self._bus, request, self._backend.outlives)
        if job is None:
            REDELIVERED.inc()
        else:
            self._known.add(name)
            self._waiting.put(job)
            self._changed.set()
        await delivery.ack()

    async def _take_cancels(self, subscription: Subscription) -> None:
        while not self._stopping:
            for delivery in await subscription.fetch(16, LOOK_S):
                wish = delivery.event
                assert isinstance(wish, RolloutCancel)
                name = f"{wish.rollout.run}.{wish.rollout.rollout}"
                if job := self._waiting.withdraw(name):
                    await self._attempts.give_up(job, wish.detail)
                elif task := self._running.get(name):
                    self._attempts.cancel(name, wish.detail)
                    task.cancel()
                await delivery.ack()

    async def _watch_demand(self) -> None:
        while not self._stopping:
            await self._demand.look()
            self._changed.set()
            await asyncio.sleep(DEMAND_S if self._waiting else LOOK_S)

    async def _start_jobs(self, tasks: asyncio.TaskGroup) -> None:
        while not self._stopping:
            self._changed.clear()
            while len(self._running) < self._concurrency and (job := self._next()):
                task = tasks.create_task(self._attempts.run(job), name=f"rollout {job.name}")
                self._running[job.name] = task
                task.add_done_callback(lambda task, job=job: self._ended(job, task))  # type: ignore[misc]
                self._count()
            try:
                await asyncio.wait_for(self._changed.wait(), LOOK_S)
            except TimeoutError:
                continue

    def _next(self) -> Job | None:
        job = self._waiting.take(self._clock(), lambda job: not self._demand.held(job.request.policy))
        if job is not None:
            self._demand.begun(job.request.policy)
        return job

    def _ended(self, job: Job, task: asyncio.Task[Job | None]) -> None:
        del self._running[job.name]
        self._waiting.done(job)
        if task.cancelled():
            if not self._stopping:  # cancelled before it ran at all: its next start finds the wish on the bus
                self._waiting.put(job)
        elif task.exception() is None and (again := task.result()):
            self._waiting.put(again)
        self._count()
        self._changed.set()

    def _count(self) -> None:
        RUNNING.set(len(self._running))
        QUEUED.set(len(self._waiting))
