"""The bus on NATS JetStream."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    ObjectStoreConfig,
    StorageType,
    StreamConfig,
)
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, NotFoundError

from drivetrain.common.bus.base import BusError, Consumer, Stored
from drivetrain.common.bus.letters import letter, read, with_trace
from drivetrain.common.bus.pull import NatsSubscription
from drivetrain.common.bus.reading import replay
from drivetrain.common.bus.streams import OBJECTS, STREAMS, StreamSpec
from drivetrain.common.bus.together import Together
from drivetrain.common.events import DeadLetter, Event, InvalidEvent, encode
from drivetrain.common.settings import BusSettings
from drivetrain.common.telemetry.logs import get_logger

STORED_ALREADY = 10071
OBJECT_HEADER = "Drivetrain-Object"
OBJECT_S = 30.0
"""Longest wait for a large payload."""

HEADROOM = 16 * 1024
"""Bytes of the server's message limit that are left to subject and headers."""

log = get_logger("bus")


async def connect(settings: BusSettings, timeout_s: float = 15.0) -> "NatsBus":
    """Connect, and create the streams that are missing. A server that is just starting is waited for; once
    connected, a lost connection is taken up again for ever.

    Raises:
        BusError: no server answers there, or it has no JetStream.
    """
    servers = [url.strip() for url in settings.url.split(",")]
    try:
        options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.5, "error_cb": _log_error}
        client = await asyncio.wait_for(nats.connect(servers, connect_timeout=5, **options), timeout_s)
    except (OSError, NatsError, TimeoutError) as error:
        raise BusError(f"no NATS server answers at {settings.url}: start one or set bus.url ({error!r})") from error
    bus = NatsBus(client, settings.shards)
    try:
        await bus.create_streams()
    except (NatsError, TimeoutError) as error:
        await client.close()
        raise BusError(f"NATS at {settings.url} has no usable JetStream: start it with -js ({error})") from error
    return bus


class NatsBus:
    """See `Bus` for the contract."""

    def __init__(self, client: Client, shards: int) -> None:
        self.client = client
        self.shards = shards
        self.js: JetStreamContext = client.jetstream(timeout=10)
        self._reads = Together(self)

    async def create_streams(self) -> None:
        """Create what is missing, and let streams of an older version take the subjects that are new; all else that
        exists stays as it is."""
        for spec in STREAMS:
            try:
                held = (await self.js.stream_info(spec.name)).config
            except NotFoundError:
                await self.js.add_stream(stream_config(spec))
                continue
            if missing := set(spec.subjects) - set(held.subjects or ()):
                await self.js.update_stream(held.evolve(subjects=[*(held.subjects or ()), *sorted(missing)]))
        try:
            await self.js.object_store(OBJECTS)
        except NotFoundError:
            await self.js.create_object_store(OBJECTS, ObjectStoreConfig(storage=StorageType.FILE))

    async def publish(self, event: Event, headers: Mapping[str, str] | None = None) -> int | None:
        sent = with_trace(headers)
        if event.ONCE:
            sent["Nats-Expected-Last-Subject-Sequence"] = "0"
        if isinstance(event, DeadLetter):
            sent["Nats-Msg-Id"] = f"{event.stream}.{event.consumer}.{event.sequence}"
        payload = encode(event)
        try:
            if len(payload) > self.client.max_payload - HEADROOM:
                payload = await self._put_object(payload, sent)
            acknowledged = await self.js.publish(event.subject(self.shards), payload, headers=sent)
        except APIError as error:
            if error.err_code == STORED_ALREADY:
                return None
            raise BusError(f"{event.STREAM} refused {type(event).__name__}: {error.description}") from error
        except (NatsError, TimeoutError) as error:
            raise BusError(f"{event.STREAM} did not confirm {type(event).__name__}: {error!r}") from error
        return int(acknowledged.seq)

    @asynccontextmanager
    async def consume(self, consumer: Consumer) -> AsyncIterator[NatsSubscription]:
        await self.js.add_consumer(consumer.stream, consumer_config(consumer))
        advisory = f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{consumer.stream}.{consumer.durable}"

        async def exhausted(message: Msg) -> None:
            await self._bury_exhausted(consumer, json.loads(message.data)["stream_seq"])

        listener = await self.client.subscribe(advisory, queue="drivetrain-dead", cb=exhausted)
        subscription = NatsSubscription(self, consumer)
        await subscription.open()
        try:
            yield subscription
        finally:
            await subscription.close()
            await listener.unsubscribe()

    async def last(self, stream: str, subject: str) -> list[Stored]:
        return await self._reads.last(stream, subject)

    async def get(self, stream: str, subject: str) -> Stored | None:
        try:
            message = await self.js.get_last_msg(stream, subject)
        except NotFoundError:
            return None
        except (NatsError, TimeoutError) as error:
            raise BusError(f"{stream} did not answer for {subject}: {error!r}") from error
        headers = dict(message.headers or {})
        payload = await self.payload_of(message.data or b"", headers)
        at = message.subject or subject
        return Stored(read(at, payload), at, message.seq or 0, headers)

    def replay(self, stream: str, subject: str, since: float = 0.0) -> AsyncIterator[Stored]:
        return replay(self, stream, subject, since)

    @asynccontextmanager
    async def watch(self, subject: str) -> AsyncIterator[asyncio.Event]:
        published = asyncio.Event()

        async def note(message: Msg) -> None:
            published.set()

        listener = await self.client.subscribe(subject, cb=note)
        try:
            yield published
        finally:
            await listener.unsubscribe()

    async def durables(self, stream: str) -> list[str]:
        names: list[str] = []
        try:
            while page := await self.js.consumers_info(stream, offset=len(names)):
                names += [info.name for info in page]
        except (NatsError, TimeoutError) as error:
            raise BusError(f"{stream} did not name its consumers: {error!r}") from error
        return names

    async def close(self) -> None:
        await self.client.drain()

    async def payload_of(self, data: bytes, headers: Mapping[str, str]) -> bytes:
        """The event's bytes: the message's own, or those of the object that it refers to.

        Raises:
            InvalidEvent: the object is gone: nobody will read this event again.
            BusError: the object cannot be read now.
        """
        name = headers.get(OBJECT_HEADER)
        if name is None:
            return data
        try:
            async with asyncio.timeout(OBJECT_S):
                store = await self.js.object_store(OBJECTS)
                return (await store.get(name)).data or b""
        except NotFoundError as error:
            raise InvalidEvent(f"the object {name} in {OBJECTS}, which holds it, is gone") from error
        except (NatsError, TimeoutError) as error:
            raise BusError(f"{OBJECTS} did not give {name}: {error!r}") from error

    async def _put_object(self, payload: bytes, headers: dict[str, str]) -> bytes:
        name = f"{time.time_ns():x}-{len(payload)}-{id(payload):x}"
        store = await self.js.object_store(OBJECTS)
        await store.put(name, payload)
        headers[OBJECT_HEADER] = name
        return b""

    async def _bury_exhausted(self, consumer: Consumer, sequence: int) -> None:
        """Write to DEAD what no replica of a consumer could process in `max_deliver` attempts."""
        try:
            message = await self.js.get_msg(consumer.stream, sequence)
        except NotFoundError:
            return
        dead = letter(
            stream=consumer.stream,
            consumer=consumer.durable,
            subject=message.subject or "",
            sequence=sequence,
            reason=f"not acknowledged in {consumer.max_deliver} deliveries",
            payload=message.data or b"",
            headers=message.headers or {},
            at=time.time(),
        )
        await self.publish(dead)
        log.error("dead letter", stream=consumer.stream, consumer=consumer.durable, sequence=sequence)


def stream_config(spec: StreamSpec) -> StreamConfig:
    """A stream's configuration on the server."""
    return StreamConfig(
        name=spec.name,
        subjects=list(spec.subjects),
        storage=StorageType.FILE,
        discard=DiscardPolicy.NEW,
        allow_direct=True,
        max_age=spec.max_age_s,
        max_bytes=spec.max_bytes,
        max_msgs_per_subject=1 if spec.last_only else -1,
    )


def consumer_config(consumer: Consumer) -> ConsumerConfig:
    """A durable pull consumer's configuration on the server."""
    return ConsumerConfig(
        durable_name=consumer.durable,
        filter_subjects=list(consumer.subjects),
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=consumer.ack_wait_s,
        max_deliver=consumer.max_deliver,
        max_ack_pending=consumer.max_ack_pending,
        deliver_policy=DeliverPolicy.NEW if consumer.start_at_new else DeliverPolicy.ALL,
    )


async def _log_error(error: Exception) -> None:
    log.warning("nats client error", error=repr(error))
