"""Takes requests from the bus while there are free slots, runs each rollout once, and drains on request."""

import asyncio
from collections.abc import Callable

from drivetrain.common.bus.base import Bus, Consumer, Delivery, Subscription
from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.events import NewerVersion, RolloutRequested
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.telemetry.traces import trace
from drivetrain.orchestrator.metrics import REDELIVERED, REFUSED, RUNNING
from drivetrain.orchestrator.reports import Reporter, publish
from drivetrain.orchestrator.requests import Planner, check_names
from drivetrain.orchestrator.rollouts import Ending, Rollout, State, rollout_of, started_event
from drivetrain.orchestrator.runner import Plan, Runner

log = get_logger("orchestrator")

REQUESTS = Consumer("ROLLOUTS", "orchestrator", ("rollout.requested.>",))
LOOK_S = 0.2
"""How long one look for a request waits; also how soon a stop is noticed."""


class Orchestrator:
    """Runs what is requested, at most `concurrency` rollouts at a time. `clock` gives unix seconds."""

    def __init__(
        self, bus: Bus, planner: Planner, runner: Runner, concurrency: int, clock: Callable[[], float]
    ) -> None:
        self._bus, self._planner, self._runner, self._clock = bus, planner, runner, clock
        self._reporter = Reporter(bus, clock)
        self._slots = asyncio.Semaphore(concurrency)
        self._running: set[asyncio.Task[Ending]] = set()
        self._stopping = False
        self._stopped = asyncio.Event()
        self.serving = False

    async def serve(self) -> None:
        """Report what an earlier life left unfinished, then take requests until `drain`, or until a request of a
        newer schema comes: it stays in the stream, and `serving` is false from then on.

        Raises:
            BusError: the bus is gone for good.
        """
        try:
            if lost := await self._reporter.recover():
                log.warning("rollouts were lost with an earlier life", count=lost)
            async with self._bus.consume(REQUESTS) as subscription, asyncio.TaskGroup() as rollouts:
                self.serving = True
                await self._take_requests(subscription, rollouts)
        finally:
            self.serving = False
            self._stopped.set()

    async def drain(self, patience_s: float) -> None:
        """Take no more requests, give running rollouts some time, cancel the rest, and wait until all is reported."""
        self._stopping = True
        try:
            await asyncio.wait_for(self._stopped.wait(), patience_s)
        except TimeoutError:
            for run in self._running:
                run.cancel()
            await self._stopped.wait()

    async def _take_requests(self, subscription: Subscription, rollouts: asyncio.TaskGroup) -> None:
        while True:
            await self._slots.acquire()
            taken = False
            try:
                if self._stopping:
                    return
                for delivery in await subscription.fetch(1, LOOK_S):
                    with trace(delivery.headers):
                        taken = await self._take(delivery, rollouts)
            except NewerVersion as error:
                log.critical("taking no more requests", reason=str(error))
                return
            finally:
                if not taken:
                    self._slots.release()

    async def _take(self, delivery: Delivery, rollouts: asyncio.TaskGroup) -> bool:
        """Claim a request's rollout and run it in the background; False if there is nothing to run."""
        request = delivery.event
        assert isinstance(request, RolloutRequested)  # the consumer's subject holds nothing else
        try:
            check_names(request)
        except BadDeclaration as error:
            await delivery.dead(str(error))
            return False
        rollout = rollout_of(request, self._planner.session(request), self._clock())
        plan = None if await self._is_known(request) else await self._plan(request, rollout)
        claimed = plan is not None and await publish(self._bus, started_event(rollout, self._clock())) is not None
        await delivery.ack()
        if plan is None or not claimed:
            return False
        rollouts.create_task(self._drive(rollout, plan), name=f"rollout {plan.name}")
        return True

    async def _is_known(self, request: RolloutRequested) -> bool:
        """Whether this rollout was started or finished before: then it never runs again."""
        name = f"{request.rollout.run}.{request.rollout.rollout}"
        for state in ("started", "finished"):
            if await self._bus.get("ROLLOUTS", f"rollout.{state}.{name}") is not None:
                REDELIVERED.inc()
                return True
        return False

    async def _plan(self, request: RolloutRequested, rollout: Rollout) -> Plan | None:
        """The request's plan; a request that cannot be run is reported as cancelled, with the reason."""
        try:
            return self._planner.plan(request, self._clock())
        except BadDeclaration as error:
            REFUSED.inc()
            await self._reporter.finish(rollout, Ending("cancelled", None, str(error)))
            return None

    async def _drive(self, rollout: Rollout, plan: Plan) -> None:
        current = rollout.to("starting")

        def moved(state: State) -> None:
            nonlocal current
            current = current.to(state)
            log.info("rollout moved", rollout=rollout.ref.rollout, state=state)

        run = asyncio.create_task(self._runner.run(plan, moved))
        self._running.add(run)
        RUNNING.inc()
        try:
            await asyncio.wait({run})
            ending = Ending("cancelled", None, "the orchestrator was stopped") if run.cancelled() else run.result()
            await self._reporter.finish(current, ending)
        finally:
            run.cancel()  # only has an effect when this task itself was cancelled
            self._running.discard(run)
            RUNNING.dec()
            self._slots.release()
