"""From the spool to the bus: events leave in the order of each session, many sessions at a time, each stored once."""

import asyncio
from collections.abc import Callable
from itertools import islice

import msgspec

from drivetrain.common.bus.base import Bus, BusError
from drivetrain.common.events import Event, InvalidEvent, NewerVersion, TurnFollowed, TurnRecorded, decode, event_type
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.telemetry.traces import HEADER
from drivetrain.proxy.metrics import BACKLOG, NOT_RECORDED
from drivetrain.proxy.recording.recorder import Record, Recorder
from drivetrain.proxy.recording.segments import HEAD
from drivetrain.proxy.recording.spool import Position

IN_FLIGHT = 64
_RETRY_S = (0.1, 5.0)
_log = get_logger("publisher")


class Publisher:
    """Reads the spool into the bus. What is published twice, after a crash, the bus refuses. `left` is told of the
    turns that a process before this one left in the spool: it may have died before anyone knew of them."""

    def __init__(
        self,
        recorder: Recorder,
        bus: Bus,
        left: Callable[[TurnRecorded], None] = lambda event: None,
        retry_s: tuple[float, float] = _RETRY_S,
    ) -> None:
        self._spool, self._written, self._bus, self._retry_s = recorder.spool, recorder.written, bus, retry_s
        self._left, self._left_until = left, recorder.spool.end
        self.away = False
        """Whether the bus took nothing when it was last asked to."""
        self.idle = asyncio.Event()

    async def run(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Publish until told to stop and nothing is left, or for ever."""
        while True:
            self._written.clear()
            records = self._spool.unread()
            while some := list(islice(records, IN_FLIGHT)):
                await self._publish(some)
                self._advance(some[-1][1])
            self.idle.set()
            if stopping():
                return
            await self._written.wait()
            self.idle.clear()

    def _advance(self, cursor: Position) -> None:
        self._spool.advance(cursor)
        BACKLOG.set(self._spool.backlog_bytes)

    async def _publish(self, records: list[tuple[bytes | None, Position]]) -> None:
        """Store a stretch of the log: the sessions beside each other, the events of each in their order. What is no
        event, or none that this version knows, is set aside: it must not hold up the rest."""
        lanes: dict[str, list[tuple[Event, dict[str, str]]]] = {}
        for payload, after in records:
            if payload is None:
                NOT_RECORDED.labels("damaged").inc()
                continue
            try:
                event, headers = _event(payload)
            except (msgspec.DecodeError, InvalidEvent, NewerVersion) as error:
                NOT_RECORDED.labels("invalid").inc()
                _log.error("a spooled record is no event that can be published", reason=str(error))
                self._spool.set_aside(after, HEAD.size + len(payload))
                continue
            if isinstance(event, TurnRecorded) and after <= self._left_until:
                self._left(event)
            lanes.setdefault(getattr(event, "session", ""), []).append((event, headers))
        await asyncio.gather(*(self._lane(lane) for lane in lanes.values()))

    async def _lane(self, lane: list[tuple[Event, dict[str, str]]]) -> None:
        for event, headers in lane:
            delay, longest = self._retry_s
            while True:
                try:
                    await self._store(event, headers)
                    self.away = False
                    break
                except BusError as error:
                    BACKLOG.set(self._spool.backlog_bytes)
                    if not self.away:
                        _log.warning("the bus took nothing, the spool holds until it does", reason=str(error))
                    self.away = True
                await asyncio.sleep(delay)
                delay = min(delay * 2, longest)

    async def _store(self, event: Event, headers: dict[str, str]) -> None:
        """Store an event once. A next state takes the first number of its turn that is free: the stream decides, so
        that numbers never repeat and no state is stored twice, whichever replica noted it.

        Raises:
            BusError: as for `Bus.publish`.
        """
        while await self._bus.publish(event, headers) is None and isinstance(event, TurnFollowed):
            if _same(event, await self._stored(event)):
                return
            event = msgspec.structs.replace(event, n=event.n + 1)

    async def _stored(self, event: TurnFollowed) -> TurnFollowed | None:
        """What has the number that an event wanted; None for what this version cannot read: it is another one."""
        try:
            stored = await self._bus.get(event.STREAM, event.subject(self._bus.shards))
        except (InvalidEvent, NewerVersion) as error:
            _log.warning("a next state in the stream cannot be read", subject=event.subject(), reason=str(error))
            return None
        if stored is None:
            raise BusError(f"{event.STREAM} refuses a copy of what it does not have: {event.subject()}")
        assert isinstance(stored.event, TurnFollowed)
        return stored.event


def _same(event: TurnFollowed, stored: TurnFollowed | None) -> bool:
    """Whether the next state is known already. That nothing followed is wrong once something did."""
    if stored is None:
        return False
    return event.kind == "idle" or (event.kind == stored.kind and event.messages == stored.messages)


def _event(payload: bytes) -> tuple[Event, dict[str, str]]:
    """
    Raises:
        DecodeError, InvalidEvent, NewerVersion: it is no event.
    """
    record = msgspec.msgpack.decode(payload, type=Record)
    event = decode(record.payload, event_type(record.prefix))
    return event, {HEADER: record.traceparent} if record.traceparent else {}
