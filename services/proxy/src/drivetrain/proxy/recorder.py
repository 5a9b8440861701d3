"""From a finished reply to the local log: an event is in the spool before the last bytes of its reply leave."""

import asyncio

import msgspec

from drivetrain.common.events import Event, encode
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.telemetry.traces import current_traceparent
from drivetrain.proxy.metrics import NOT_RECORDED
from drivetrain.proxy.spool import Spool, SpoolError

_log = get_logger("recorder")


class Record(msgspec.Struct, frozen=True, array_like=True):
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
        record = Record(event.PREFIX, encode(event), current_traceparent())
        try:
            self.spool.append(msgspec.msgpack.encode(record))
        except SpoolError as error:
            NOT_RECORDED.labels("spool").inc()
            _log.error("not recorded", event_type=event.PREFIX, reason=str(error))
            return False
        self.written.set()
        return True
