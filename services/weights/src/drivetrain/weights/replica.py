"""One replica in the service's care: bring it to a version, and let it prove that it serves it."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from drivetrain.common.events import Post
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.weights import metrics
from drivetrain.weights.engines.base import Engine, EngineError, Refused, Serving, Weights, adapter_name
from drivetrain.weights.rollout import Down, Outcome, Proved, Rejected, probe_gap
from drivetrain.weights.settings import TimeoutSettings
from drivetrain.weights.target import Target

log = get_logger("weights")

LONGEST_WAIT_S = 30.0
QUIET_LOOKS = 3
"""Looks in a row that find no request on an adapter before it counts as unused: one may be on its way from a proxy."""
LOOK_S = 0.2


async def nothing() -> None:
    """Nobody wants to know."""


class Replica:
    """`up` while it answers and serves the promoted version; `proved` are the versions, as labels or as names of
    adapters, that a probe has confirmed since it answers; `tolerance` is the largest mean probe gap in nats. `changed`
    is called when what requests may ask of it changes in mid-load."""

    def __init__(
        self,
        engine: Engine,
        tolerance: float,
        timeouts: TimeoutSettings,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        changed: Callable[[], Awaitable[None]] = nothing,
    ) -> None:
        self.engine = engine
        self.name = engine.name
        self.url = engine.url
        self.up = False
        self.why = "it was not looked at yet"
        self.proved: set[int | str] = set()
        self.serving = Serving(None, paused=False)
        self.draining = False
        self.changed = changed
        self._tolerance = tolerance
        self._timeouts = timeouts
        self._sleep = sleep
        self._clock = clock
        self._not_before = 0.0
        self._postponed_s = 0.0
        self._unused_since: dict[str, float] = {}

    async def look(self) -> Serving:
        """Ask what it serves. What a replica with another label proved in an earlier life is not believed any more.

        Raises:
            EngineError: it does not answer.
        """
        before, self.serving = self.serving, await self.engine.serving()
        if self.serving.version != before.version:
            self.proved.clear()
        self.proved &= {self.serving.version, *self.serving.adapters}
        metrics.SERVED.labels(self.name).set(-1 if self.serving.version is None else self.serving.version)
        return self.serving

    async def trust_base(self) -> None:
        """It was started with the base model and serves it: its tokens are those of version 0.

        Raises:
            EngineError: it does not answer.
        """
        if self.serving.version is None:
            await self.engine.label(0)
            await self.look()
        self.proved.add(0)

    def knows(self, version: int, policy: str) -> bool:
        """Whether it serves a version of a policy, and proved it."""
        return not self.serving.paused and bool(self.proved & {version, adapter_name(policy, version)})

    def post(self, policy: str) -> Post:
        """What the proxy may ask of it for a policy."""
        label, prefix = self.serving.version, f"{policy}@"
        names = [str(name).removeprefix(prefix) for name in self.proved if str(name).startswith(prefix)]
        adapters = [] if self.draining else sorted(int(version) for version in names if version.isdecimal())
        return Post(
            url=self.url,
            label=label if label in self.proved else None,
            adapters=adapters,
            out="" if self.up else self.why,
        )

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
        self.up, self.why = up, "" if up else why
        metrics.UP.labels(self.name).set(up)

    async def bring(self, target: Target, attempts: int | None = None) -> Outcome:
        """Load a version and compare its probe with the trainer's; tries again while the replica itself fails."""
        reason = ""
        for attempt in range(attempts or self._timeouts.attempts):
            if attempt:
                await self._sleep(min(LONGEST_WAIT_S, self._timeouts.retry_s * 2 ** (attempt - 1)))
            try:
                return await self._try(target)
            except EngineError as error:
                reason = str(error)
                metrics.FAILURES.labels(self.name, "engine").inc()
                log.warning("replica failed", replica=self.name, version=target.version, reason=reason)
        return Down(self.name, reason)

    async def stage(self, target: Target) -> Rejected | None:
        """Let it read and check a version beside its requests. A replica that does not answer is no objection."""
        try:
            staged = await self.engine.stage(target.weights)
        except Refused as error:
            return self._refused(error)
        except EngineError as error:
            log.warning("not staged", replica=self.name, version=target.version, reason=str(error))
            return None
        metrics.FETCHED_BYTES.labels(self.name).inc(staged.fetched_bytes)
        return None

    async def _try(self, target: Target) -> Outcome:
        if target.base is not None and (await self.look()).version != target.base.version:
            if self.serving.version is None and not self.serving.paused and target.base.version == 0:
                await self.trust_base()
            else:
                outcome = await self._load(target.base)
                if not isinstance(outcome, Proved):
                    return outcome
        return await self._load(target)

    async def _load(self, target: Target) -> Outcome:
        started, weights = self._clock(), target.weights
        if weights.name is None:
            await self._drain(weights)
        confirmed = set(self.proved)
        self.proved = confirmed - {target.key} if weights.name else set()
        try:
            await self.engine.load(weights)
        except Refused as error:
            self.proved = confirmed
            return self._refused(error)
        finally:
            self.draining = False
        seconds = self._clock() - started
        metrics.LOAD_SECONDS.labels(self.name).observe(seconds)
        await self.look()
        return await self.prove(target, seconds)

    def _refused(self, error: Refused) -> Rejected:
        metrics.FAILURES.labels(self.name, "refused").inc()
        return Rejected(self.name, str(error))

    async def prove(self, target: Target, seconds: float = 0.0) -> Outcome:
        """Compare the replica's logprobs of the probe with the trainer's; the base model has none and is trusted.

        Raises:
            EngineError: it did not answer.
        """
        version, probe = target.version, target.probe
        if probe is None:
            self.proved.add(target.key)
            return Proved(self.name, seconds, None)
        gap = probe_gap(probe.logprobs, await self.engine.logprobs(probe.token_ids, target.weights.name))
        metrics.PROBE_GAP.labels(self.name).set(gap)
        # Written so that a gap that is not a number is too large as well
        if not gap <= self._tolerance:
            metrics.FAILURES.labels(self.name, "probe").inc()
            reason = f"version {version} on {self.name} is {gap:.2g} nats from the trainer's probe"
            return Rejected(self.name, f"{reason}, allowed are {self._tolerance:.2g}")
        self.proved.add(target.key)
        return Proved(self.name, seconds, gap)

    async def tidy(self, wanted: set[str], policy: str, unused_s: float) -> None:
        """Unload this policy's adapters that are not wanted any more and that nobody has used for a while.

        Raises:
            EngineError: it does not answer.
        """
        spare = {name for name in self.serving.adapters if name.startswith(f"{policy}@")} - wanted
        busy = await self.engine.busy() if spare else frozenset()
        now = self._clock()
        since = {name: self._unused_since.get(name, now) for name in spare - busy}
        for name in [name for name, at in since.items() if now - at >= unused_s]:
            await self.engine.unload(name)
            self.proved.discard(name)
            log.info("unloaded", replica=self.name, adapter=name)
            del since[name]
        self._unused_since = since

    async def _drain(self, weights: Weights) -> None:
        """An adapter over other weights than its own would be a version that never was: before full weights change,
        no request may use one. New requests get the version below it, or another replica."""
        names = {name for name in (await self.look()).adapters if name.startswith(f"{weights.policy}@")}
        if not names:
            return
        self.draining = True
        await self.changed()
        until, quiet = self._clock() + self._timeouts.drain_s, 0
        while quiet < QUIET_LOOKS and self._clock() < until:
            quiet = 0 if names & await self.engine.busy() else quiet + 1
            await self._sleep(LOOK_S)
        if quiet < QUIET_LOOKS:
            log.warning("not drained in time", replica=self.name, version=weights.version)
        for name in names:
            await self.engine.unload(name)
            self.proved.discard(name)
