"""How many tokens a judge model may use in a minute and in a day."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

SLOTS = 60
"""Into so many slots a window is cut; what was spent in a slot counts until the slot's end is a window ago."""


class Window:
    """At most `limit` tokens in any `seconds`. Pure: the time is an argument."""

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._step = seconds / SLOTS
        self._slots: deque[tuple[int, int]] = deque()

    def wait(self, now: float, tokens: int) -> float:
        """Seconds until so many tokens may be spent, 0 if now. More than the limit counts as the limit: such a call
        waits for an empty window."""
        while self._slots and self._ends(self._slots[0][0]) <= now:
            self._slots.popleft()
        excess = sum(spent for _, spent in self._slots) + min(tokens, self._limit) - self._limit
        for slot, spent in self._slots:
            if excess <= 0:
                break
            excess -= spent
            if excess <= 0:
                return self._ends(slot) - now
        return 0.0

    def spend(self, now: float, tokens: int) -> None:
        """Count tokens; a negative number gives back what was counted too much."""
        slot = int(now // self._step)
        if self._slots and self._slots[-1][0] == slot:
            tokens += self._slots.pop()[1]
        self._slots.append((slot, tokens))

    def _ends(self, slot: int) -> float:
        return (slot + 1) * self._step + self._seconds


class Budget:
    """One process's budget: callers wait in line until their tokens fit. None is no limit."""

    def __init__(
        self, per_minute: int | None, per_day: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        limits = ((per_minute, 60.0), (per_day, 86_400.0))
        self._windows = [Window(limit, seconds) for limit, seconds in limits if limit is not None]
        self._clock = clock
        self._line = asyncio.Lock()

    async def reserve(self, tokens: int) -> None:
        """Wait until a call of so many tokens may be made, and count them."""
        async with self._line:
            while wait := await self._wait_for(tokens):  # noqa: ASYNC110
                await asyncio.sleep(wait)

    async def spend(self, tokens: int) -> None:
        """Count tokens without waiting, or correct what was reserved by the difference."""
        self._count(tokens)

    async def _wait_for(self, tokens: int) -> float:
        """Seconds to wait before asking again; 0 once the tokens are counted."""
        wait = max((window.wait(self._clock(), tokens) for window in self._windows), default=0.0)
        if not wait:
            self._count(tokens)
        return wait

    def _count(self, tokens: int) -> None:
        for window in self._windows:
            window.spend(self._clock(), tokens)
