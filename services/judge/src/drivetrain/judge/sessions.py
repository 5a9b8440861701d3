"""Reading a session from the bus and storing its scores, with retries while the bus is away."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import stamina

from drivetrain.common.bus.base import Bus, BusError, Stored
from drivetrain.common.events import Event, Signal, TurnFollowed, TurnRecorded, shard_of

T = TypeVar("T")


@dataclass(frozen=True)
class Session:
    """Which session, and whose."""

    tenant: str
    policy: str
    id: str

    @classmethod
    def of(cls, event: TurnFollowed | Signal) -> "Session":
        return cls(event.tenant, event.policy, event.session)


class Sessions:
    """One batched read for each kind of event of a session; a bus that is away is waited for, by default without end:
    the message stays in work, and the service's drain ends the wait."""

    def __init__(self, bus: Bus, patience_s: float | None = None) -> None:
        self._bus = bus
        self._patience_s = patience_s

    async def turns(self, session: Session, *, fresh: bool = False) -> list[TurnRecorded]:
        """The recorded turns of a session, in stream order. `fresh`: all that were stored before this was called."""
        events = await self._last("TURNS", f"turn.recorded.{self._scope(session)}.*", fresh)
        return [e for e in events if isinstance(e, TurnRecorded) and e.tenant == session.tenant]

    async def followed(self, session: Session, turn: str = "*", *, fresh: bool = False) -> list[TurnFollowed]:
        """The next states known of a turn, or of all turns of the session; `fresh` as above."""
        events = await self._last("TURNS", f"turn.followed.{self._scope(session)}.{turn}.*", fresh)
        return [e for e in events if isinstance(e, TurnFollowed) and e.tenant == session.tenant]

    async def signals(self, session: Session, *, fresh: bool = False) -> list[Signal]:
        """The signals of a session; `fresh` as above."""
        events = await self._last("SIGNALS", f"signal.*.{self._scope(session)}.*", fresh)
        return [e for e in events if isinstance(e, Signal) and e.tenant == session.tenant]

    async def newest(self, stream: str, subject: str) -> Event | None:
        """The event of a subject, as the leader has it."""
        found = await self._insist(partial(self._bus.get, stream, subject))
        return found.event if found is not None else None

    async def all(self, stream: str, subject: str) -> list[Stored]:
        """Every event of the subjects that match that was stored before this was called, however many."""
        return await self._insist(partial(self._replayed, stream, subject))

    async def store(self, events: Sequence[Event]) -> None:
        """Publish, each once, however often this is called."""
        for event in events:
            await self._insist(partial(self._bus.publish, event))

    async def _last(self, stream: str, subject: str, fresh: bool) -> list[Event]:
        return await self._insist(partial(self._read, stream, subject, fresh))

    async def _read(self, stream: str, subject: str, fresh: bool) -> list[Event]:
        newest = await self._bus.get(stream, subject) if fresh else None
        found = await self._bus.last(stream, subject)
        _check_fresh(stream, found, newest)
        return [stored.event for stored in found]

    async def _replayed(self, stream: str, subject: str) -> list[Stored]:
        newest = await self._bus.get(stream, subject)
        found = [stored async for stored in self._bus.replay(stream, subject)]
        _check_fresh(stream, found, newest)
        return found

    def _scope(self, session: Session) -> str:
        return f"{shard_of(session.id, self._bus.shards)}.{session.policy}.{session.id}"

    async def _insist(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do it, and again while the bus is away. What is done for every turn goes without a retry's own cost."""
        try:
            return await act()
        except BusError:
            pass
        retrying = stamina.retry_context(
            on=BusError, attempts=None, timeout=self._patience_s, wait_initial=0.2, wait_max=5.0
        )
        async for attempt in retrying:
            with attempt:
                return await act()
        raise AssertionError("a retry context ends with a result or an error")


def _check_fresh(stream: str, found: Sequence[Stored], newest: Stored | None) -> None:
    """A follower may lag behind: what it gave is held against the leader's newest."""
    if newest is not None and (not found or found[-1].sequence < newest.sequence):
        raise BusError(f"{stream} lags behind its leader")
