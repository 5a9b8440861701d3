"""Turns to which nothing came for a while: each is said once, by one of the replicas."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from drivetrain.common.events import Event
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.conversations.echoes import replaced, superseded_at_end
from drivetrain.proxy.metrics import IDLE
from drivetrain.proxy.recording.capture import followed
from drivetrain.proxy.sessions.index import Index
from drivetrain.proxy.sessions.sessions import Sessions
from drivetrain.proxy.turns import KnownTurn

_LEASE_S = 60.0
_AT_ONCE = 100
_log = get_logger("sessions")


class Closer:
    """Claims deadlines that are over and records that their turns went idle. A claim that its replica does not live to
    fulfil comes due again after a minute, and a turn that did get a next state is found out at the bus."""

    def __init__(
        self,
        sessions: Sessions,
        index: Index,
        record: Callable[[Event], Awaitable[bool]],
        *,
        every_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sessions, self._index, self._record = sessions, index, record
        self._every_s, self._clock = every_s, clock

    async def run(self, stopping: Callable[[], bool]) -> None:
        """Look at the deadlines again and again until the service stops."""
        while not stopping():
            while await self.look() == _AT_ONCE:
                pass
            await asyncio.sleep(self._every_s)

    async def look(self) -> int:
        """Close what is due now, at most a hundred turns; how many were due."""
        now = self._clock()
        due = await self._index.claim(now, _LEASE_S, _AT_ONCE)
        closed = []
        for place in due:
            known = await self._sessions.at(place)
            if known is None:
                _log.warning("a turn that went idle is not known any more", turn=place.turn)
            elif not await self._close(known, now):
                continue
            closed.append(place)
        if closed:
            await self._index.write([], closed)
        return len(due)

    async def _close(self, known: KnownTurn, now: float) -> bool:
        """Say that a turn went idle and that attempts before it came to nothing, or that it did itself where a later
        one was answered; False when that could not be written."""
        attempts = await self._sessions.attempts(known.asked)
        if replaced(known, attempts):
            return await self._record(followed(known, [], kind="superseded", trainable=False, now=now))
        if not await self._record(followed(known, [], kind="idle", trainable=True, now=now)):
            return False
        for other in superseded_at_end(known, attempts):
            await self._record(followed(other, [], kind="superseded", trainable=False, now=now))
        IDLE.inc()
        return True
