"""One attempt at one rollout: taken up, moved through its states, and ended, or put back for another attempt."""

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from drivetrain.common.bus.base import Bus
from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.events import RolloutCancel, RolloutState
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.orchestrator.lifecycle.reports import Reporter, publish
from drivetrain.orchestrator.lifecycle.rollouts import Ending, Rollout, ending_from_signal, started_event
from drivetrain.orchestrator.lifecycle.waiting import Job
from drivetrain.orchestrator.metrics import REFUSED
from drivetrain.orchestrator.running.requests import Planner, lease_name
from drivetrain.orchestrator.running.runner import Runner

log = get_logger("orchestrator")

LONGEST_WAIT_S = 300.0


@dataclass(frozen=True)
class Retries:
    """How often a rollout is tried that fails for no fault of the harness, and the seconds before the second attempt;
    before each later one twice as many."""

    attempts: int = 3
    backoff_s: float = 2.0

    def wait_s(self, attempt: int, name: str) -> float:
        """Seconds to wait after this attempt. Names spread them over half as much again: what failed together does not
        come back together."""
        spread = 1.0 + zlib.crc32(name.encode()) % 1000 / 2000
        return min(self.backoff_s * 2.0 ** (attempt - 1), LONGEST_WAIT_S) * spread


class Progress:
    """Where an attempt stands; every move is told."""

    def __init__(self, reporter: Reporter, rollout: Rollout) -> None:
        self._reporter, self.rollout = reporter, rollout

    async def moved(self, state: RolloutState, detail: str = "") -> None:
        """The attempt reached its next state."""
        self.rollout = self.rollout.to(state)
        await self._reporter.moved(self.rollout, detail)


class Attempts:
    """Runs attempts. `clock` gives unix seconds."""

    def __init__(
        self, bus: Bus, planner: Planner, runner: Runner, retries: Retries, clock: Callable[[], float]
    ) -> None:
        self._bus, self._planner, self._runner, self._retries, self._clock = bus, planner, runner, retries, clock
        self._reporter = Reporter(bus, clock)
        self._unwanted: dict[str, str] = {}

    def cancel(self, name: str, why: str) -> None:
        """The running attempt of that name is cancelled next, and nobody wants another."""
        self._unwanted[name] = why

    async def give_up(self, job: Job, why: str) -> None:
        """End a rollout that does not run, as somebody wished."""
        await self._reporter.finish(self._rollout(job), _cancelled(why))

    async def run(self, job: Job) -> Job | None:
        """Run one attempt. Returns the next one if there is to be one; else the end is stored. When this is cancelled,
        the sandboxes are gone, and the end is stored only if nobody wants the rollout any more.

        Raises:
            BusError: the bus confirmed nothing for a long time.
        """
        progress = Progress(self._reporter, self._rollout(job))
        try:
            ending = await self._attempt(job, progress)
            if ending.again and job.attempt < self._retries.attempts:
                await progress.moved("waiting", ending.detail)
                wait_s = self._retries.wait_s(job.attempt, job.name)
                return job.again(progress.rollout.since, self._clock() + wait_s)
        except asyncio.CancelledError:
            if (why := self._unwanted.pop(job.name, None)) is None:
                if progress.rollout.state != "requested":
                    await progress.moved("waiting", "the orchestrator was stopped")
                raise
            ending = _cancelled(why)
        await self._reporter.finish(progress.rollout, ending)
        return None

    async def _attempt(self, job: Job, progress: "Progress") -> Ending:
        """How the attempt ends, or the rollout without another one."""
        if job.told is not None:
            return ending_from_signal(job.told)
        wish = await self._bus.get("ROLLOUTS", f"rollout.cancel.{job.name}")
        if wish is not None and isinstance(wish.event, RolloutCancel):
            return _cancelled(wish.event.detail)
        if job.attempt > self._retries.attempts:
            times = self._retries.attempts
            return Ending("infrastructure", None, f"the orchestrator ended while this rollout ran, {times} times")
        try:
            plan = self._planner.plan(job.request, self._clock(), job.attempt)
        except BadDeclaration as error:
            REFUSED.inc()
            return Ending("cancelled", None, str(error))
        if not job.started:
            await publish(self._bus, started_event(progress.rollout, self._clock()))
        return await self._runner.run(plan, progress.moved)

    def _rollout(self, job: Job) -> Rollout:
        session = job.told.session if job.told else self._planner.session(job.request, job.attempt)
        since = job.since if job.started else self._clock()
        return Rollout(job.request.rollout, job.request.policy, session, since, job.attempt)


def sandboxes(job: Job) -> tuple[str, str]:
    """The names of the sandboxes that an attempt has: where it works, and where it is graded."""
    name = lease_name(job.request, job.attempt)
    return name, f"{name}.grade"


def _cancelled(why: str) -> Ending:
    return Ending("cancelled", None, f"cancelled: {why}" if why else "cancelled by request")
