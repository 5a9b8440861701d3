"""Reading a session from the bus and storing its scores, with retries while the bus is away."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import stamina

from drivetrain.common.bus.base import Bus, BusError
from drivetrain.common.events import Event, Signal, TurnFollowed, TurnRecorded, shard_of


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

    async def turns(self, session: Session) -> list[TurnRecorded]:
        """The recorded turns of a session, in stream order."""
        events = await self._last("TURNS", f"turn.recorded.{self._scope(session)}.*")
        return [e for e in events if isinstance(e, TurnRecorded) and e.tenant == session.tenant]

    async def followed(self, session: Session, turn: str = "*") -> list[TurnFollowed]:
        """The next states known of a turn, or of all turns of the session."""
        events = await self._last("TURNS", f"turn.followed.{self._scope(session)}.{turn}.*")
        return [e for e in events if isinstance(e, TurnFollowed) and e.tenant == session.tenant]

    async def signals(self, session: Session) -> list[Signal]:
        """The signals of a session."""
        events = await self._last("SIGNALS", f"signal.*.{self._scope(session)}.*")
        return [e for e in events if isinstance(e, Signal) and e.tenant == session.tenant]

    async def store(self, events: Sequence[Event]) -> None:
        """Publish, each once, however often this is called."""
        for event in events:
            async for attempt in self._while_away():
                with attempt:
                    await self._bus.publish(event)

    async def _last(self, stream: str, subject: str) -> list[Event]:
        async for attempt in self._while_away():
            with attempt:
                return [stored.event for stored in await self._bus.last(stream, subject)]
        raise BusError(f"{stream} could not be read")

    def _scope(self, session: Session) -> str:
        return f"{shard_of(session.id, self._bus.shards)}.{session.policy}.{session.id}"

    def _while_away(self) -> AsyncIterator[stamina.Attempt]:
        return aiter(
            stamina.retry_context(
                on=BusError, attempts=None, timeout=self._patience_s, wait_initial=0.2, wait_max=5.0
            )
        )
