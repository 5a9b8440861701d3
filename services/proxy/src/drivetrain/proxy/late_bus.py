"""The bus of a proxy that answers people whether or not there is one: it may come after the proxy, and go and come."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager

from drivetrain.common.bus import BusError, NatsBus, connect
from drivetrain.common.bus.base import Consumer, Stored, Subscription
from drivetrain.common.events import Event
from drivetrain.common.settings import BusSettings
from drivetrain.common.telemetry.logs import get_logger

_log = get_logger("bus")


class LateBus:
    """See `drivetrain.common.bus.Bus` for the contract; until it is connected, every question is a `BusError`."""

    def __init__(self, settings: BusSettings) -> None:
        self._settings, self.shards = settings, settings.shards
        self._bus: NatsBus | None = None

    @property
    def here(self) -> bool:
        """Whether the bus can be asked now."""
        return self._bus is not None and self._bus.client.is_connected

    async def look(self, timeout_s: float) -> bool:
        """Try to connect once; whether it is connected."""
        try:
            self._bus = self._bus or await connect(self._settings, timeout_s)
        except BusError as error:
            _log.warning("the bus is away: the proxy answers, and its log holds what it has to say", reason=str(error))
        return self._bus is not None

    async def run(self, stopped: Callable[[], Awaitable[None]], timeout_s: float = 15.0) -> None:
        """Connect, however long it takes, unless the service stops before."""
        stop = asyncio.ensure_future(stopped())
        try:
            while self._bus is None and not stop.done():
                looking = asyncio.ensure_future(self.look(timeout_s))
                await asyncio.wait((looking, stop), return_when=asyncio.FIRST_COMPLETED)
                looking.cancel()
        finally:
            stop.cancel()

    async def publish(self, event: Event, headers: Mapping[str, str] | None = None) -> int | None:
        return await self._connected.publish(event, headers)

    def consume(self, consumer: Consumer) -> AbstractAsyncContextManager[Subscription]:
        return self._connected.consume(consumer)

    async def last(self, stream: str, subject: str) -> list[Stored]:
        return await self._connected.last(stream, subject)

    async def get(self, stream: str, subject: str) -> Stored | None:
        return await self._connected.get(stream, subject)

    def replay(self, stream: str, subject: str, since: float = 0.0) -> AsyncIterator[Stored]:
        return self._connected.replay(stream, subject, since)

    def watch(self, subject: str) -> AbstractAsyncContextManager[asyncio.Event]:
        return self._connected.watch(subject)

    async def durables(self, stream: str) -> list[str]:
        return await self._connected.durables(stream)

    async def close(self) -> None:
        if self._bus is not None:
            await self._bus.close()

    @property
    def _connected(self) -> NatsBus:
        if self._bus is None:
            raise BusError(f"no NATS server has answered at {self._settings.url} yet")
        return self._bus
