"""After a loss of Redis: one replica reads the stream of turns again and writes the index anew, the others serve on."""

import asyncio
import time
from collections.abc import Callable

import msgspec

from drivetrain.common.bus.base import Bus, BusError
from drivetrain.common.events import Event, TurnFollowed, TurnRecorded
from drivetrain.common.identity import new_id
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.metrics import REBUILDS
from drivetrain.proxy.recording.capture import known_turn
from drivetrain.proxy.sessions.index import Entry, Index
from drivetrain.proxy.sessions.kept import Address
from drivetrain.proxy.sessions.sessions import Sessions

EVERY_S = 1.0
_LEASE_S = 15.0
_BREATHE = 16
_WRITES = 200
_log = get_logger("sessions")


class Fold:
    """What a stretch of the stream says of sessions: where their turns are, and which of them nothing has followed.
    Events may come in any order."""

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._followed: set[Address] = set()
        self._open: dict[Address, Entry] = {}
        self._entries: list[Entry] = []

    def take(self, event: Event) -> None:
        """Add one event of the stream of turns."""
        if isinstance(event, TurnFollowed):
            place = Address(event.policy, event.session, event.turn)
            self._followed.add(place)
            self._open.pop(place, None)
        elif isinstance(event, TurnRecorded) and event.place is not None:
            known = known_turn(event)
            place = Address(event.policy, event.session, event.turn)
            finished_at = event.finished_at if known.awaited else None
            entry = Entry(place=place, lines=known.lines, requests=known.requests, finished_at=finished_at)
            self._entries.append(entry)
            if known.awaited and place not in self._followed:
                self._open[place] = entry

    def found(self, at_least: int = 1) -> list[Entry]:
        """The entries since the last call; none while they are fewer than asked for."""
        if len(self._entries) < at_least:
            return []
        entries, self._entries = self._entries, []
        return entries

    def unfollowed(self) -> list[Entry]:
        """The turns that nothing followed, with their deadlines."""
        return [
            msgspec.structs.replace(entry, deadline=(entry.finished_at or 0.0) + self._idle_s)
            for entry in self._open.values()
        ]


class Rebuilder:
    """Watches whether the index is whole. It is when `epoch` names the very server process that now answers: a flush
    takes the key away, a restart changes the process, whatever it loaded from its disk."""

    def __init__(
        self,
        sessions: Sessions,
        index: Index,
        bus: Bus,
        *,
        idle_s: float,
        keep_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sessions, self._index, self._bus = sessions, index, bus
        self._idle_s, self._keep_s, self._clock = idle_s, keep_s, clock
        self._epoch: str | None = None
        self.looked = False
        """Whether this replica has looked once, and rebuilt what it had to."""

    async def run(self, stopping: Callable[[], bool]) -> None:
        """Look every second until the service stops."""
        while not stopping():
            await self.look()
            self.looked = True
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Rebuild the index if it is not whole and nobody else does; write what this replica owes it."""
        answer = await self._index.epoch()
        if answer is None:
            return
        epoch, server = answer
        if self._epoch not in (None, epoch):
            self._sessions.owe_all()
        self._epoch = epoch
        await self._sessions.settle()
        if not epoch or not epoch.startswith(server):
            await self._rebuild(f"{server} {new_id()}")

    async def _rebuild(self, epoch: str) -> None:
        if not await self._index.lock(epoch, _LEASE_S):
            return
        started = self._clock()
        try:
            count = await self._replay(started - max(self._keep_s, self._idle_s))
        except BusError as error:
            _log.warning("the session index cannot be rebuilt yet", reason=str(error))
            count = None
        if count is not None:
            await self._index.mark(epoch)
            self._epoch = epoch
            REBUILDS.inc()
            _log.info("session index rebuilt", events=count, seconds=round(self._clock() - started, 3))
        await self._index.unlock(epoch)

    async def _replay(self, since: float) -> int | None:
        """The number of events that were read; None when Redis went away meanwhile.

        Raises:
            BusError: the stream cannot be read.
        """
        fold, count = Fold(self._idle_s), 0
        async for stored in self._bus.replay("TURNS", "turn.>", since):
            fold.take(stored.event)
            count += 1
            if count % _BREATHE == 0:
                await asyncio.sleep(0)
            if not await self._write(fold.found(at_least=_WRITES)):
                return None
        rest = [*fold.found(), *fold.unfollowed()]
        for start in range(0, len(rest), _WRITES):
            if not await self._write(rest[start : start + _WRITES]):
                return None
        return count

    async def _write(self, entries: list[Entry]) -> bool:
        """False when Redis is away, or took the lock away."""
        if not entries:
            return True
        return await self._index.write(entries) and await self._index.lock("", _LEASE_S, renew=True)
