"""From a finished reply to the bus: events go into the spool at once, and a publisher takes them out in order."""

import asyncio
from collections.abc import Callable

import msgspec

from drivetrain.common.bus.base import Bus, BusError
from drivetrain.common.events import Event, InvalidEvent, decode, encode, event_type
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.telemetry.traces import HEADER, current_traceparent
from drivetrain.proxy.metrics import BACKLOG, NOT_RECORDED
from drivetrain.proxy.spool import Position, Spool, SpoolError

_CURSOR_EVERY = 100
_RETRY_S = (0.1, 5.0)
_log = get_logger("recorder")


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """What lies in the spool: the event's subject prefix, its payload, and its trace."""

    prefix: str
    payload: bytes
    traceparent: str | None = None


class Recorder:
    """Writes events to the spool. It never delays and never fails a reply: what cannot be written is counted."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.written = asyncio.Event()

    def record(self, event: Event) -> bool:
        """Append an event; False when the spool took nothing."""
        record = _Record(event.PREFIX, encode(event), current_traceparent())
        try:
            self.spool.append(msgspec.msgpack.encode(record))
        except SpoolError as error:
            NOT_RECORDED.labels("spool").inc()
            _log.error("not recorded", event_type=event.PREFIX, reason=str(error))
            return False
        self.written.set()
        return True


class Publisher:
    """Reads the spool into the bus, one event after the other. A copy is harmless: the bus refuses it."""

    def __init__(self, recorder: Recorder, bus: Bus, retry_s: tuple[float, float] = _RETRY_S) -> None:
        self._spool, self._written, self._bus, self._retry_s = recorder.spool, recorder.written, bus, retry_s
        self.idle = asyncio.Event()

    async def run(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Publish until told to stop and nothing is left, or for ever."""
        while True:
            self._written.clear()
            await self._drain()
            self.idle.set()
            if stopping():
                return
            await self._written.wait()
            self.idle.clear()

    async def _drain(self) -> None:
        cursor = None
        for count, (payload, cursor) in enumerate(self._spool.unread(), start=1):
            await self._publish(payload)
            if count % _CURSOR_EVERY == 0:
                self._advance(cursor)
        if cursor is not None:
            self._advance(cursor)

    def _advance(self, cursor: Position) -> None:
        self._spool.advance(cursor)
        BACKLOG.set(self._spool.backlog_bytes)

    async def _publish(self, payload: bytes) -> None:
        record = msgspec.msgpack.decode(payload, type=_Record)
        try:
            event = decode(record.payload, event_type(record.prefix))
        except InvalidEvent as error:
            NOT_RECORDED.labels("invalid").inc()
            _log.error("a spooled event cannot be read and is skipped", reason=str(error))
            return
        headers = {HEADER: record.traceparent} if record.traceparent else None
        delay, longest = self._retry_s
        while True:
            try:
                await self._bus.publish(event, headers)
                return
            except BusError as error:
                BACKLOG.set(self._spool.backlog_bytes)
                _log.warning("the bus took nothing, the spool holds", reason=str(error), retry_s=delay)
            await asyncio.sleep(delay)
            delay = min(delay * 2, longest)
