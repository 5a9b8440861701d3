"""One replica in the service's care: bring it to a version and let it prove that it serves it."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from drivetrain.common.store.checkpoints import Probe
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.weights import metrics
from drivetrain.weights.engines.base import Engine, EngineError, Refused, Weights
from drivetrain.weights.rollout import Down, Outcome, Proved, Rejected, probe_gap
from drivetrain.weights.settings import TimeoutSettings

log = get_logger("weights")

LONGEST_WAIT_S = 30.0


class Replica:
    """`up` while it answers and serves the promoted version; `proved` while its label is backed by a probe, not only
    by its word; `tolerance` is the largest mean probe gap in nats."""

    def __init__(
        self,
        engine: Engine,
        tolerance: float,
        timeouts: TimeoutSettings,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self.name = engine.name
        self.up = False
        self.proved = False
        self._tolerance = tolerance
        self._timeouts = timeouts
        self._sleep = sleep
        self._clock = clock
        self._not_before = 0.0
        self._postponed_s = 0.0

    def due(self) -> bool:
        """Whether another try at a replica that could not be brought up to date is due."""
        return self._clock() >= self._not_before

    def note(self, outcome: Outcome) -> None:
        """Note what became of bringing the replica up to date; failures put off the next try, longer each time,
        because a load stops the replica for a moment."""
        proved = isinstance(outcome, Proved)
        self._postponed_s = 0.0 if proved else min(LONGEST_WAIT_S, max(self._timeouts.retry_s, 2 * self._postponed_s))
        self._not_before = self._clock() + self._postponed_s
        self.mark(proved, why="" if isinstance(outcome, Proved) else outcome.reason)

    def mark(self, up: bool, why: str = "") -> None:
        """Note whether the replica is up, and log it when that changes."""
        if up != self.up:
            (log.info if up else log.warning)("replica up" if up else "replica down", replica=self.name, reason=why)
        self.up = up
        metrics.UP.labels(self.name).set(up)

    async def bring(self, weights: Weights, probe: Probe | None, attempts: int | None = None) -> Outcome:
        """Load a version and compare its probe with the trainer's; tries again while the replica itself fails."""
        reason = ""
        for attempt in range(attempts or self._timeouts.attempts):
            if attempt:
                await self._sleep(min(LONGEST_WAIT_S, self._timeouts.retry_s * 2 ** (attempt - 1)))
            try:
                return await self._try(weights, probe)
            except EngineError as error:
                reason = str(error)
                metrics.FAILURES.labels(self.name, "engine").inc()
                log.warning("replica failed", replica=self.name, version=weights.version, reason=reason)
        return Down(self.name, reason)

    async def _try(self, weights: Weights, probe: Probe | None) -> Outcome:
        started, before = self._clock(), self.proved
        self.proved = False
        try:
            await self.engine.load(weights)
        except Refused as error:
            self.proved = before
            metrics.FAILURES.labels(self.name, "refused").inc()
            return Rejected(self.name, str(error))
        seconds = self._clock() - started
        metrics.LOAD_SECONDS.labels(self.name).observe(seconds)
        metrics.SERVED.labels(self.name).set(weights.version)
        return await self.prove(weights.version, probe, seconds)

    async def prove(self, version: int, probe: Probe | None, seconds: float = 0.0) -> Outcome:
        """Compare the replica's logprobs of the probe with the trainer's; the base model has none and is trusted.

        Raises:
            EngineError: it did not answer.
        """
        if probe is None:
            self.proved = True
            return Proved(self.name, seconds, None)
        gap = probe_gap(probe.logprobs, await self.engine.logprobs(probe.token_ids))
        metrics.PROBE_GAP.labels(self.name).set(gap)
        # Written so that a gap that is not a number is too large as well
        if not gap <= self._tolerance:
            metrics.FAILURES.labels(self.name, "probe").inc()
            reason = f"version {version} on {self.name} is {gap:.2g} nats from the trainer's probe"
            return Rejected(self.name, f"{reason}, allowed are {self._tolerance:.2g}")
        self.proved = True
        return Proved(self.name, seconds, gap)
