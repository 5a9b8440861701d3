"""Run a handler over a consumer: fetch, bounded concurrency, in-progress acks, ack after the result is stored."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from drivetrain.common.bus.base import Bus, BusError, Consumer, Delivery, Subscription
from drivetrain.common.events import NewerVersion
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.telemetry.metrics import Metrics
from drivetrain.common.telemetry.traces import trace

Handler = Callable[[Delivery], Awaitable[None]]

log = get_logger("bus")
POLL_S = 1.0
LAG_S = 5.0
PENDING = Metrics("bus").gauge("pending_messages", "Messages that a consumer was not given yet", ["consumer"])


class Unprocessable(ValueError):
    """Raised by a handler: this message can never be processed; dead-letter it with this reason."""


class Gate(Protocol):
    """Something that a handler cannot do without, such as another server. While it is shut nothing is pulled: messages
    wait in the stream, undelivered. What is in work already waits in its handler."""

    @property
    def shut(self) -> bool: ...

    async def opened(self) -> None:
        """Wait until it is not shut."""


async def handle(
    bus: Bus,
    consumer: Consumer,
    handler: Handler,
    lifecycle: Lifecycle,
    concurrency: int = 16,
    gate: Gate | None = None,
) -> None:
    """Hand every message of a consumer to `handler` until the service stops, while the gate is open.

    A delivery is acked when the handler returns, dead-lettered when it raises `Unprocessable`; anything else it
    raises ends the service, and the message is delivered again. Deliveries in work get in-progress acks. A message of
    a newer schema, or one whose handler met such an event, stops this consumer and makes the service unready: it stays
    in the stream for an upgraded service.
    """
    halted: list[str] = []

    def halt(error: NewerVersion) -> None:
        halted.append(str(error))
        log.critical("consumer stopped", consumer=consumer.durable, reason=str(error))

    lifecycle.ready_when(f"{consumer.stream} is readable", lambda: not halted)
    async with bus.consume(consumer) as subscription, asyncio.TaskGroup() as group:
        work = _Work(group, handler, concurrency, halt)
        beside = [
            group.create_task(work.keep_alive(consumer.ack_wait_s / 3)),
            group.create_task(_watch_lag(subscription, consumer.durable)),
        ]
        while not lifecycle.stopping and not halted:
            try:
                for delivery in await _pull(subscription, await work.free(), gate, lifecycle):
                    work.start(delivery)
            except NewerVersion as error:
                halt(error)
        for task in beside:
            task.cancel()


async def _watch_lag(subscription: Subscription, durable: str) -> None:
    """Report how many messages the consumer has not been given yet; every replica of a service says the same."""
    while True:
        try:
            PENDING.labels(durable).set(await subscription.pending())
        except BusError as error:
            log.debug("lag not known", consumer=durable, reason=str(error))
        await asyncio.sleep(LAG_S)


async def _pull(subscription: Subscription, count: int, gate: Gate | None, lifecycle: Lifecycle) -> Sequence[Delivery]:
    if gate is None or not gate.shut:
        return await subscription.fetch(count, POLL_S)
    if rest := await subscription.rest():
        return rest
    waits = [asyncio.ensure_future(gate.opened()), asyncio.ensure_future(lifecycle.until_stopped())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return ()


class _Work:
    """The deliveries in work, at most `limit` at a time."""

    def __init__(
        self, group: asyncio.TaskGroup, handler: Handler, limit: int, halt: Callable[[NewerVersion], None]
    ) -> None:
        self._group = group
        self._handler = handler
        self._limit = limit
        self._halt = halt
        self._deliveries: set[Delivery] = set()
        self._finished = asyncio.Event()

    async def free(self) -> int:
        """How many more may start; waits until that is at least one."""
        while len(self._deliveries) >= self._limit:
            self._finished.clear()
            await self._finished.wait()
        return self._limit - len(self._deliveries)

    def start(self, delivery: Delivery) -> None:
        self._deliveries.add(delivery)
        self._group.create_task(self._run(delivery))

    async def keep_alive(self, every_s: float) -> None:
        """Tell the server that the deliveries in work are still in work."""
        while True:
            await asyncio.sleep(every_s)
            for delivery in list(self._deliveries):
                await delivery.in_progress()

    async def _run(self, delivery: Delivery) -> None:
        try:
            with trace(delivery.headers):
                await _handle_one(delivery, self._handler)
        except NewerVersion as error:
            self._halt(error)
        finally:
            self._deliveries.discard(delivery)
            self._finished.set()


async def _handle_one(delivery: Delivery, handler: Handler) -> None:
    try:
        await handler(delivery)
    except Unprocessable as error:
        await delivery.dead(str(error))
        return
    # If this ack is lost the message comes again, and its result is found stored: not worth a round trip each.
    await delivery.ack(confirm=False)
