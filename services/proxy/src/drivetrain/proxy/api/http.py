"""What HTTP asks of every dialect: streams that end when the caller leaves, errors as answers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")


class CallerLeft(Exception):
    """The caller closed the connection before the reply was whole."""


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do the work, but cancel it when the caller leaves. The body must have been read.

    Raises:
        CallerLeft: after the work has ended its cancellation.
    """
    working = asyncio.current_task()
    assert working is not None
    before, watching = working.cancelling(), asyncio.ensure_future(_left(receive))

    def leave(watched: "asyncio.Future[None]") -> None:
        if not watched.cancelled():
            working.cancel()

    watching.add_done_callback(leave)
    try:
        return await work
    except asyncio.CancelledError as error:
        if watching.done() and working.uncancel() <= before:
            raise CallerLeft from error
        raise
    finally:
        watching.remove_done_callback(leave)
        watching.cancel()


def json_response(document: Mapping[str, Any], status: int = 200) -> Response:
    """An answer of one document."""
    return Response(msgspec.json.encode(document), status_code=status, media_type="application/json")


class EventStream(Response):
    """A stream of server-sent events whose source is closed at once when the caller leaves.

    `close` is called at the end in any case: a source that was never begun cannot close what it would read.
    """

    def __init__(
        self,
        source: AsyncIterator[bytes],
        close: Callable[[], Awaitable[None]],
        media_type: str = "text/event-stream",
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}, media_type=media_type)
        del self.headers["content-length"]
        self._source, self._close = source, close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(receive, self._send(send))
        except CallerLeft:
            return
        finally:
            await self._close()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        source = self._source
        assert isinstance(source, AsyncGenerator)
        async with aclosing(source):
            async for part in source:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
