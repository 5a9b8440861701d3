"""The bus in one process's memory, for unit tests: the same contract, no server, no persistence."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from drivetrain.common.bus.base import BusError, Consumer, Delivery, Stored
from drivetrain.common.bus.letters import left_out, letter, read, readable, with_trace
from drivetrain.common.bus.streams import STREAMS
from drivetrain.common.events import DeadLetter, Event, InvalidEvent, encode

REPEATING = {spec.name for spec in STREAMS if not spec.once}


@dataclass
class _Record:
    subject: str
    payload: bytes
    sequence: int
    headers: dict[str, str]
    at: float


@dataclass
class _State:
    """What the server keeps of one durable consumer."""

    next_index: int = 0
    attempts: dict[int, int] = field(default_factory=dict)
    unacked: dict[int, float] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)


class MemoryBus:
    """See `Bus` for the contract. `clock` counts seconds and decides when `ack_wait_s` is over."""

    def __init__(self, shards: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self.shards = shards
        self.clock = clock
        self.streams: dict[str, list[_Record]] = {spec.name: [] for spec in STREAMS}
        self.changed = asyncio.Event()
        self._states: dict[tuple[str, str], _State] = {}
        self._watches: list[tuple[str, asyncio.Event]] = []

    async def publish(self, event: Event, headers: Mapping[str, str] | None = None) -> int | None:
        return self.store(event.STREAM, event.subject(self.shards), encode(event), with_trace(headers))

    def store(self, stream: str, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> int | None:
        """Store raw bytes, as any NATS client could."""
        records = self.streams.get(stream)
        if records is None:
            raise BusError(f"there is no stream {stream}")
        if stream not in REPEATING and any(record.subject == subject for record in records):
            return None
        records.append(_Record(subject, payload, len(records) + 1, dict(headers or {}), time.time()))
        self.changed.set()
        for watched, published in self._watches:
            if matches(subject, watched):
                published.set()
        return len(records)

    @asynccontextmanager
    async def consume(self, consumer: Consumer) -> AsyncIterator["MemorySubscription"]:
        key = (consumer.stream, consumer.durable)
        if key not in self._states:
            start = len(self.streams[consumer.stream]) if consumer.start_at_new else 0
            self._states[key] = _State(next_index=start)
        yield MemorySubscription(self, consumer, self._states[key])

    async def last(self, stream: str, subject: str) -> list[Stored]:
        latest = {r.subject: r for r in self.streams[stream] if matches(r.subject, subject)}
        ordered = sorted(latest.values(), key=lambda record: record.sequence)
        found = (_stored(record) for record in ordered)
        return [stored for stored in found if stored is not None]

    async def get(self, stream: str, subject: str) -> Stored | None:
        records = [record for record in self.streams[stream] if matches(record.subject, subject)]
        if not records:
            return None
        last = records[-1]
        return Stored(read(last.subject, last.payload), last.subject, last.sequence, last.headers)

    async def replay(self, stream: str, subject: str, since: float = 0.0) -> AsyncIterator[Stored]:
        for record in tuple(self.streams[stream]):
            if record.at >= since and matches(record.subject, subject):
                stored = readable(record.subject, record.payload, record.sequence, record.headers)
                if stored is not None:
                    yield stored

    @asynccontextmanager
    async def watch(self, subject: str) -> AsyncIterator[asyncio.Event]:
        watch = (subject, asyncio.Event())
        self._watches.append(watch)
        try:
            yield watch[1]
        finally:
            self._watches.remove(watch)

    async def durables(self, stream: str) -> list[str]:
        return [durable for held_by, durable in self._states if held_by == stream]

    async def close(self) -> None:
        """Nothing is pending in memory."""


class MemoryDelivery:
    """See `Delivery` for the contract."""

    def __init__(self, bus: MemoryBus, consumer: Consumer, state: _State, record: _Record) -> None:
        self._bus, self._consumer, self._state, self._record = bus, consumer, state, record
        self.subject = record.subject
        self.headers: Mapping[str, str] = record.headers
        self.sequence = record.sequence
        self.attempt = state.attempts[record.sequence]
        self.event: Event = read(record.subject, record.payload)

    async def ack(self, *, confirm: bool = True) -> None:
        self._state.unacked.pop(self.sequence, None)
        self._state.done.add(self.sequence)

    async def nak(self) -> None:
        if self.sequence in self._state.unacked:
            self._state.unacked[self.sequence] = self._bus.clock()
            self._bus.changed.set()

    async def in_progress(self) -> None:
        if self.sequence in self._state.unacked:
            self._state.unacked[self.sequence] = self._bus.clock() + self._consumer.ack_wait_s

    async def dead(self, reason: str) -> None:
        await self._bus.publish(_letter(self._consumer, self._record, reason))
        await self.ack()


class MemorySubscription:
    """See `Subscription` for the contract."""

    def __init__(self, bus: MemoryBus, consumer: Consumer, state: _State) -> None:
        self._bus, self._consumer, self._state = bus, consumer, state

    async def fetch(self, count: int, timeout_s: float) -> Sequence[Delivery]:
        deadline = time.monotonic() + timeout_s
        while True:
            self._bus.changed.clear()
            deliveries = await self._take(count)
            remaining = deadline - time.monotonic()
            if deliveries or remaining <= 0:
                return deliveries
            try:
                # A short bound, so that an expired ack_wait is seen without an event.
                await asyncio.wait_for(self._bus.changed.wait(), timeout=min(remaining, 0.02))
            except TimeoutError:
                continue

    async def rest(self) -> Sequence[Delivery]:
        return []

    async def pending(self) -> int:
        records = self._bus.streams[self._consumer.stream][self._state.next_index :]
        return sum(self._wanted(record.subject) for record in records)

    async def _take(self, count: int) -> list[Delivery]:
        deliveries: list[Delivery] = []
        while len(deliveries) < count and (record := await self._next_record()) is not None:
            try:
                deliveries.append(MemoryDelivery(self._bus, self._consumer, self._state, record))
            except InvalidEvent as error:
                await self._bury(record, str(error))
        return deliveries

    async def _next_record(self) -> _Record | None:
        records, state, now = self._bus.streams[self._consumer.stream], self._state, self._bus.clock()
        for sequence in sorted(s for s, due in state.unacked.items() if due <= now):
            record = records[sequence - 1]
            if state.attempts[sequence] >= self._consumer.max_deliver:
                await self._bury(record, f"not acknowledged in {self._consumer.max_deliver} deliveries")
                continue
            return self._deliver(record, now)
        if len(state.unacked) >= self._consumer.max_ack_pending:
            return None
        while state.next_index < len(records):
            record = records[state.next_index]
            state.next_index += 1
            if self._wanted(record.subject):
                return self._deliver(record, now)
        return None

    def _deliver(self, record: _Record, now: float) -> _Record:
        attempts = self._state.attempts
        attempts[record.sequence] = attempts.get(record.sequence, 0) + 1
        self._state.unacked[record.sequence] = now + self._consumer.ack_wait_s
        return record

    async def _bury(self, record: _Record, reason: str) -> None:
        await self._bus.publish(_letter(self._consumer, record, reason))
        self._state.unacked.pop(record.sequence, None)
        self._state.done.add(record.sequence)

    def _wanted(self, subject: str) -> bool:
        return any(matches(subject, pattern) for pattern in self._consumer.subjects)


def matches(subject: str, pattern: str) -> bool:
    """Whether a subject matches a NATS pattern (`*` one token, `>` the rest)."""
    tokens, wanted = subject.split("."), pattern.split(".")
    for position, token in enumerate(wanted):
        if token == ">":
            return len(tokens) > position
        if position >= len(tokens) or token not in ("*", tokens[position]):
            return False
    return len(tokens) == len(wanted)


def _stored(record: _Record) -> Stored | None:
    try:
        return Stored(read(record.subject, record.payload), record.subject, record.sequence, record.headers)
    except InvalidEvent as error:
        left_out(record.subject, record.sequence, error)
        return None


def _letter(consumer: Consumer, record: _Record, reason: str) -> DeadLetter:
    return letter(
        stream=consumer.stream,
        consumer=consumer.durable,
        subject=record.subject,
        sequence=record.sequence,
        reason=reason,
        payload=record.payload,
        headers=record.headers,
        at=time.time(),
    )
