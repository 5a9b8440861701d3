"""Run a handler over a consumer: fetch, bounded concurrency, in-progress acks, ack after the result is stored."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from drivetrain.common.bus.base import Bus, Consumer, Delivery
from drivetrain.common.events import NewerVersion
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.telemetry.traces import trace

Handler = Callable[[Delivery], Awaitable[None]]

log = get_logger("bus")
POLL_S = 1.0


class Unprocessable(ValueError):
    """Raised by a handler: this message can never be processed; dead-letter it with this reason."""


async def handle(bus: Bus, consumer: Consumer, handler: Handler, lifecycle: Lifecycle, concurrency: int = 16) -> None:
    """Hand every message of a consumer to `handler` until the service stops.

    A delivery is acked when the handler returns, dead-lettered when it raises `Unprocessable`; anything else it
    raises ends the service, and the message is delivered again. Deliveries in work get in-progress acks. A message of
    a newer schema stops this consumer and makes the service unready: it stays in the stream for an upgraded service.
    """
    halted: list[str] = []
    lifecycle.ready_when(f"{consumer.stream} is readable", lambda: not halted)
    async with bus.consume(consumer) as subscription:
        while not lifecycle.stopping and not halted:
            try:
                deliveries = await subscription.fetch(concurrency, POLL_S)
            except NewerVersion as error:
                halted.append(str(error))
                log.critical("consumer stopped", consumer=consumer.durable, reason=str(error))
                return
            await _handle_all(deliveries, consumer, handler)


async def _handle_all(deliveries: Sequence[Delivery], consumer: Consumer, handler: Handler) -> None:
    if not deliveries:
        return
    keeper = asyncio.create_task(_keep_alive(deliveries, consumer.ack_wait_s / 3))
    try:
        async with asyncio.TaskGroup() as group:
            for delivery in deliveries:
                group.create_task(_handle_one(delivery, handler))
    finally:
        keeper.cancel()


async def _handle_one(delivery: Delivery, handler: Handler) -> None:
    with trace(delivery.headers):
        try:
            await handler(delivery)
        except Unprocessable as error:
            await delivery.dead(str(error))
            return
    await delivery.ack()


async def _keep_alive(deliveries: Sequence[Delivery], every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        for delivery in deliveries:
            await delivery.in_progress()
