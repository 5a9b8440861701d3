"""From the spool to the bus: events leave in the order of each session, many sessions at a time, each stored once."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from drivetrain.common.bus.base import Bus, BusError
from drivetrain.common.events import Event, InvalidEvent, TurnFollowed, decode, event_type
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.telemetry.traces import HEADER
from drivetrain.proxy.metrics import BACKLOG, NOT_RECORDED
from drivetrain.proxy.recording.recorder import Record, Recorder
from drivetrain.proxy.recording.spool import Position

IN_FLIGHT = 64
_RETRY_S = (0.1, 5.0)
_log = get_logger("publisher")


class Publisher:
    """Reads the spool into the bus. What is published twice, after a crash, the bus refuses."""

    def __init__(self, recorder: Recorder, bus: Bus, retry_s: tuple[float, float] = _RETRY_S) -> None:
        self._spool, self._written, self._bus, self._retry_s = recorder.spool, recorder.written, bus, retry_s
        self._away = False
        self.idle = asyncio.Event()

    async def run(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Publish until told to stop and nothing is left, or for ever."""
        while True:
            self._written.clear()
            records = self._spool.unread()
            while some := list(islice(records, IN_FLIGHT)):
                await self._publish([payload for payload, _ in some])
                self._advance(some[-1][1])
            self.idle.set()
            if stopping():
                return
            await self._written.wait()
            self.idle.clear()

    def _advance(self, cursor: Position) -> None:
        self._spool.advance(cursor)
        BACKLOG.set(self._spool.backlog_bytes)

    async def _publish(self, payloads: list[bytes]) -> None:
        """Store a stretch of the log: the sessions beside each other, the events of each in their order."""
        lanes: dict[str, list[tuple[Event, dict[str, str]]]] = {}
        for event, headers in _events(payloads):
            lanes.setdefault(getattr(event, "session", ""), []).append((event, headers))
        await asyncio.gather(*(self._lane(lane) for lane in lanes.values()))

    async def _lane(self, lane: list[tuple[Event, dict[str, str]]]) -> None:
        for event, headers in lane:
            delay, longest = self._retry_s
            while True:
                try:
                    await self._store(event, headers)
                    self._away = False
                    break
                except BusError as error:
                    BACKLOG.set(self._spool.backlog_bytes)
                    if not self._away:
                        _log.warning("the bus took nothing, the spool holds until it does", reason=str(error))
                    self._away = True
                await asyncio.sleep(delay)
                delay = min(delay * 2, longest)

    async def _store(self, event: Event, headers: dict[str, str]) -> None:
        """Store an event once. A next state takes the first number of its turn that is free: the stream decides, so
        that numbers never repeat and no state is stored twice, whichever replica noted it.

        Raises:
            BusError: as for `Bus.publish`.
        """
        while await self._bus.publish(event, headers) is None and isinstance(event, TurnFollowed):
            stored = await self._bus.get(event.STREAM, event.subject(self._bus.shards))
            if stored is None:
                raise BusError(f"{event.STREAM} refuses a copy of what it does not have: {event.subject()}")
            assert isinstance(stored.event, TurnFollowed)
            if _same(event, stored.event):
                return
            event = msgspec.structs.replace(event, n=event.n + 1)


def _same(event: TurnFollowed, stored: TurnFollowed) -> bool:
    """Whether the next state is known already. That nothing followed is wrong once something did."""
    return event.kind == "idle" or (event.kind == stored.kind and event.messages == stored.messages)


def _events(payloads: list[bytes]) -> Iterator[tuple[Event, dict[str, str]]]:
    for payload in payloads:
        record = msgspec.msgpack.decode(payload, type=Record)
        try:
            event = decode(record.payload, event_type(record.prefix))
        except InvalidEvent as error:
            NOT_RECORDED.labels("invalid").inc()
            _log.error("a spooled event cannot be read and is skipped", reason=str(error))
            continue
        yield event, {HEADER: record.traceparent} if record.traceparent else {}
