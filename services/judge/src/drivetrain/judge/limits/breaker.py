"""A circuit breaker: a gate that shuts when an endpoint fails again and again, and opens when it answers."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from drivetrain.common.telemetry.logs import get_logger

LONGEST_WAIT_S = 60.0

log = get_logger("judge")


class Breaker:
    """Shut after `threshold` failures in a row. While it is shut one of those who wait asks `probe`, at once and then
    after waits that double from `wait_s`, with jitter, until it succeeds.

    `outages` counts the probes that failed: a failure during which it grew was the endpoint's, not one turn's.
    """

    def __init__(self, threshold: int, wait_s: float, probe: Callable[[], Awaitable[bool]]) -> None:
        self._threshold = threshold
        self._wait_s = wait_s
        self._probe = probe
        self._failures = 0
        self._asking = asyncio.Lock()
        self.outages = 0

    @property
    def shut(self) -> bool:
        return self._failures >= self._threshold

    def failed(self, reason: str) -> None:
        """A call failed for a reason that lies with the endpoint."""
        self._failures += 1
        if self._failures == self._threshold:
            log.error("the judge model does not answer: turns wait in the stream", reason=reason)

    def succeeded(self) -> None:
        """A call was answered."""
        if self.shut:
            log.info("the judge model answers again")
        self._failures = 0

    async def opened(self) -> None:
        """Wait until it is open."""
        if not self.shut:
            return
        async with self._asking:
            wait = self._wait_s
            while self.shut:
                if await self._probe():
                    self.succeeded()
                    return
                self.outages += 1
                await asyncio.sleep(random.uniform(wait / 2, wait))
                wait = min(2 * wait, LONGEST_WAIT_S)
