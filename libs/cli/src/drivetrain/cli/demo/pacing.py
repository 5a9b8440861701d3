"""How fast the person talks: never far ahead of the trainer, so that samples come from weights that are still near.

A turn that got a reaction is *outstanding* until its score was seen, then *waiting* (if it can train) until a version
that was trained on it is served. New sessions open only while fewer than `limit` turns are outstanding or waiting;
sessions under way go on. With a limit of one and a half batches the next batch is half talked together while one
is trained: a correction waits for little else than its own training, and no sample is more than about two versions old.

The trainer may drop what is too old, and such turns would be waited for in vain. So whoever waits for longer than
`patience_s` without a new version takes the slate as clean (`forgive`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Pace:
    """The counts behind the rule. Not one of them is a clock."""

    limit: int
    usable: int = 0
    trained: int = 0
    _outstanding: set[str] = field(default_factory=set)
    _settled: set[str] = field(default_factory=set)

    @property
    def outstanding(self) -> int:
        """Turns that got a reaction and whose score was not seen."""
        return len(self._outstanding)

    @property
    def ahead(self) -> int:
        """How many turns the person is ahead of the served version."""
        return self.outstanding + max(0, self.usable - self.trained)

    def must_wait(self) -> bool:
        """Whether no new session should open now."""
        return self.ahead >= self.limit

    def position(self) -> int:
        """The place in the trainer's line that the turn answered next will take at the latest."""
        return self.usable + self.outstanding + 1

    def followed(self, turn: str) -> None:
        """The person reacted to a turn. Its score may have been seen already: no order holds between streams."""
        if turn not in self._settled:
            self._outstanding.add(turn)

    def settled(self, turn: str, usable: bool) -> None:
        """A turn was scored, and can train or not."""
        self.usable += usable
        self._settled.add(turn)
        self._outstanding.discard(turn)

    def forgive(self) -> None:
        """Stop waiting for what has not been trained by now."""
        self.trained = max(self.trained, self.usable)
        self._settled |= self._outstanding
        self._outstanding.clear()


class Gate:
    """Lets sessions open at the pace of the trainer."""

    def __init__(self, pace: Pace, patience_s: float = 60.0) -> None:
        self.pace = pace
        self.patience_s = patience_s
        self.forgiven = 0
        self.closed = False
        self._condition = asyncio.Condition()

    async def changed(self) -> None:
        """Tell the gate that the pace's counts changed."""
        async with self._condition:
            self._condition.notify_all()

    async def close(self) -> None:
        """Let nobody wait any longer: the time is up."""
        self.closed = True
        await self.changed()

    async def open(self) -> None:
        """Wait until a new session may open, or the gate is closed for good."""
        await self.until(lambda: self.closed or not self.pace.must_wait())

    async def caught_up(self, rest: int) -> None:
        """Wait until at most `rest` turns are ahead of the served version, or no new version came for too long."""
        await self.until(lambda: self.pace.ahead <= rest)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition on the counts, which is looked at after each change. Whenever no new version came for
        `patience_s`, forgive, and look again."""
        async with self._condition:
            while not condition():
                await self._news(self.pace.trained, condition)

    async def _news(self, trained: int, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(self.patience_s):
                await self._condition.wait_for(lambda: condition() or self.pace.trained != trained)
        except TimeoutError:
            self.pace.forgive()
            self.forgiven += 1
