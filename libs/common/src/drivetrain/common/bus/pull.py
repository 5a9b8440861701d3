"""A pull consumer on JetStream that returns as soon as something is there.

The client library's own `fetch` waits for a whole batch or its timeout; a service must act on the first message. One
pull request is outstanding at a time; what it brings beyond a fetch is kept for the next one.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as ClientSubscription
from nats.errors import Error as NatsError

from drivetrain.common.bus.base import BusError, Consumer, Delivery
from drivetrain.common.bus.letters import letter, read
from drivetrain.common.events import Event, InvalidEvent
from drivetrain.common.telemetry.logs import get_logger

if TYPE_CHECKING:
    from drivetrain.common.bus.nats import NatsBus

log = get_logger("bus")
GRACE_S = 1.0
"""How long after a pull request's expiry its silence means that it was lost (a reconnect)."""


class NatsDelivery:
    """See `Delivery` for the contract."""

    def __init__(self, bus: "NatsBus", consumer: Consumer, message: Msg) -> None:
        self._bus = bus
        self._consumer = consumer
        self._message = message
        self._payload = message.data
        self.subject = message.subject
        self.headers: Mapping[str, str] = dict(message.headers or {})
        self.sequence = int(message.metadata.sequence.stream)
        self.attempt = int(message.metadata.num_delivered)
        self.event: Event

    async def decode(self) -> None:
        self._payload = await self._bus.payload_of(self._payload, self.headers)
        self.event = read(self.subject, self._payload)

    async def ack(self, *, confirm: bool = True) -> None:
        try:
            await (self._message.ack_sync(timeout=10) if confirm else self._message.ack())
        except (NatsError, TimeoutError) as error:
            # Nothing is lost: the message comes again, and its result is found stored.
            log.warning("ack not confirmed", subject=self.subject, consumer=self._consumer.durable, reason=repr(error))

    async def nak(self) -> None:
        await self._message.nak()

    async def in_progress(self) -> None:
        await self._message.in_progress()

    async def dead(self, reason: str) -> None:
        dead = letter(
            stream=self._consumer.stream,
            consumer=self._consumer.durable,
            subject=self.subject,
            sequence=self.sequence,
            reason=reason,
            payload=self._payload,
            headers=self.headers,
            at=time.time(),
        )
        await self._bus.publish(dead)
        await self._message.term()
        log.error("dead letter", subject=self.subject, consumer=self._consumer.durable, reason=reason)


class NatsSubscription:
    """See `Subscription` for the contract."""

    def __init__(self, bus: "NatsBus", consumer: Consumer) -> None:
        self._bus = bus
        self._consumer = consumer
        self._queue: asyncio.Queue[Msg] = asyncio.Queue()
        self._inbox = bus.client.new_inbox()
        self._subscription: ClientSubscription | None = None
        self._outstanding = 0
        self._expires_at = 0.0

    async def open(self) -> None:
        self._subscription = await self._bus.client.subscribe(self._inbox, cb=self._queue.put)

    async def close(self) -> None:
        if self._subscription is not None:
            await self._subscription.unsubscribe()

    async def fetch(self, count: int, timeout_s: float) -> Sequence[Delivery]:
        deadline = time.monotonic() + timeout_s
        deliveries: list[Delivery] = []
        while not deliveries:
            remaining = deadline - time.monotonic()
            if remaining <= 0 and self._queue.empty():
                break
            await self._request(count, max(remaining, 0.05))
            try:
                message = await asyncio.wait_for(self._queue.get(), timeout=max(remaining, 0.01))
            except TimeoutError:
                break
            await self._accept(message, deliveries)
            while len(deliveries) < count and not self._queue.empty():
                await self._accept(self._queue.get_nowait(), deliveries)
        return deliveries

    async def rest(self) -> Sequence[Delivery]:
        deliveries: list[Delivery] = []
        while not deliveries and (self._outstanding > 0 or not self._queue.empty()):
            remaining = self._expires_at + GRACE_S - time.monotonic()
            try:
                message = await asyncio.wait_for(self._queue.get(), timeout=max(remaining, 0.01))
            except TimeoutError:
                self._outstanding = 0
                break
            await self._accept(message, deliveries)
        return deliveries

    async def pending(self) -> int:
        try:
            info = await self._bus.js.consumer_info(self._consumer.stream, self._consumer.durable)
        except (NatsError, TimeoutError) as error:
            raise BusError(f"{self._consumer.durable} did not answer: {error!r}") from error
        return int(info.num_pending or 0)

    async def _request(self, count: int, expires_s: float) -> None:
        if time.monotonic() > self._expires_at + GRACE_S:
            self._outstanding = 0
        if self._outstanding > 0 or not self._queue.empty():
            return
        body = json.dumps({"batch": count, "expires": int(expires_s * 1e9)}).encode()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._consumer.stream}.{self._consumer.durable}"
        self._outstanding = count
        self._expires_at = time.monotonic() + expires_s
        await self._bus.client.publish(subject, body, reply=self._inbox)

    async def _accept(self, message: Msg, deliveries: list[Delivery]) -> None:
        if (message.headers or {}).get("Status"):
            self._outstanding = 0
            return
        self._outstanding = max(0, self._outstanding - 1)
        delivery = NatsDelivery(self._bus, self._consumer, message)
        try:
            await delivery.decode()
        except InvalidEvent as error:
            await delivery.dead(str(error))
            return
        deliveries.append(delivery)
