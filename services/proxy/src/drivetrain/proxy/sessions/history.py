"""Sessions as the stream of turns holds them: read when Redis has lost them."""

import asyncio

from drivetrain.common.bus.base import Bus, BusError
from drivetrain.common.events import TurnRecorded
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.recording.capture import known_turn
from drivetrain.proxy.sessions.kept import Address, Kept, keep

_log = get_logger("sessions")


class History:
    """Reads the bus, for a bounded time: a request waits for it."""

    def __init__(self, bus: Bus, timeout_s: float = 3.0) -> None:
        self._bus, self._timeout_s = bus, timeout_s

    async def session(self, policy: str, session: str) -> dict[str, Kept]:
        """All turns of a session that can be continued; empty when the bus is away."""
        return {event.turn: keep(known_turn(event)) for event in await self._read(f"{policy}.{session}.*")}

    async def find(self, turn: str) -> Address | None:
        """Where a turn is. `turn` must be an id and nothing else."""
        found = await self._read(f"*.*.{turn}")
        return Address(found[0].policy, found[0].session, turn) if found else None

    async def last(self, session: str) -> Address | None:
        """Where the awaited turn of a session that finished last is."""
        known = [known_turn(event) for event in await self._read(f"*.{session}.*")]
        last = max((turn for turn in known if turn.awaited), key=lambda turn: turn.finished_at, default=None)
        return Address(last.policy, session, last.turn) if last else None

    async def _read(self, tail: str) -> list[TurnRecorded]:
        try:
            async with asyncio.timeout(self._timeout_s):
                reading = self._bus.replay("TURNS", f"turn.recorded.*.{tail}")
                events = [stored.event async for stored in reading]
        except (BusError, TimeoutError) as error:
            _log.warning("the stream of turns cannot be read", reason=str(error) or type(error).__name__)
            return []
        return [event for event in events if isinstance(event, TurnRecorded) and event.place is not None]
