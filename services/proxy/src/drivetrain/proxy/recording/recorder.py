"""From a finished reply to the local log: an event is in the spool before the last bytes of its reply leave."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from drivetrain.common.events import Event, TurnRecorded, encode
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.telemetry.traces import current_traceparent
from drivetrain.proxy.metrics import NOT_RECORDED
from drivetrain.proxy.recording.commit import GroupCommit
from drivetrain.proxy.recording.segments import SpoolError
from drivetrain.proxy.recording.spool import Spool

_log = get_logger("recorder")


Mask = Callable[[Event], Awaitable[Event]]


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What lies in the spool: the event's subject prefix, its payload, and its trace."""

    prefix: str
    payload: bytes
    traceparent: str | None = None


class Recorder:
    """Writes events to the spool. It never delays and never fails a reply: what cannot be written is counted.

    `mask`, if there is one, gives each event as it may be written down; see `drivetrain.proxy.access.redaction`.
    """

    def __init__(self, spool: Spool, mask: Mask | None = None) -> None:
        self.spool, self._mask = spool, mask
        self.written = asyncio.Event()
        self._commit = GroupCommit(spool.commit)

    async def record(self, event: Event) -> bool:
        """Append an event; False when the spool took nothing."""
        kept = await self._masked(event)
        return kept is not None and self._append(kept)

    async def record_turn(self, event: TurnRecorded) -> TurnRecorded:
        """Append a turn; returns it with its true tokens and what its record says of whether it can be trained."""
        kept = await self._masked(event)
        if kept is None:
            return event
        self._append(kept)
        said = {name: getattr(kept, name) for name in ("masked", "consent", "exact", "inexact_reason")}
        return msgspec.structs.replace(event, **said) if kept is not event else event

    async def lasting(self) -> None:
        """Wait until what was recorded survives the machine too, if the spool is to (`spool.fsync`)."""
        if not self.spool.fsync:
            return
        try:
            await self._commit()
        except OSError as error:
            NOT_RECORDED.labels("fsync").inc()
            _log.error("recorded, but a crash of the machine may lose it", reason=str(error))

    async def _masked(self, event: Event) -> Event | None:
        if self._mask is None:
            return event
        try:
            return await self._mask(event)
        except Exception as error:  # noqa: BLE001  whatever it is, the reply is on its way; its words may hold a secret
            self._lost(event, "mask", type(error).__name__)
            return None

    def _append(self, event: Event) -> bool:
        try:
            payload = encode(event)
        except (TypeError, ValueError, OverflowError) as error:
            return self._lost(event, "encode", type(error).__name__)
        try:
            self.spool.append(msgspec.msgpack.encode(Record(event.PREFIX, payload, current_traceparent())))
        except SpoolError as error:
            return self._lost(event, "spool", str(error))
        self.written.set()
        return True

    def _lost(self, event: Event, reason: str, words: str) -> bool:
        NOT_RECORDED.labels(reason).inc()
        _log.error("not recorded", event_type=event.PREFIX, at=reason, reason=words)
        return False
