"""HTTP from clients that are slow, or send too much: a connection that makes no progress ends."""

import asyncio
from typing import Literal

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from drivetrain.proxy.metrics import CUT_OFF

_GRACE_S = 5.0


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long, in seconds, and how much: a request's line and headers, its body, and a reply that is not read."""

    head_bytes: int = 64 << 10
    head_s: float = 20.0
    body_s: float = 120.0
    unread_s: float = 60.0


class _TooMuch(Exception):
    """Ends the parsing of a request whose headers are too large."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds. A request that arrives whole costs nothing extra: timers wait for the others.

    The app itself answers a body that is too slow or too large, in its dialect's shape; here such a connection only
    ends when the rest of the body does not come either.
    """

    patience = Patience()
    _reading: Literal["head", "body"] | None = "head"
    _timed: Literal["head", "body"] | None = None
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _refusal: tuple[int, str] = (400, "this is not a valid HTTP/1.1 request")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_the_rest()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop(self._timer)
        self._stop(self._unread)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._reading == "head":
            self._head_bytes += len(data)
            if self._head_bytes > self.patience.head_bytes and not self.transport.is_closing():
                self._refuse_head()
                self.send_400_response("")
        self._wait_for_the_rest()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._reading, self._head_bytes = "head", 0

    def on_headers_complete(self) -> None:
        head = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if head > self.patience.head_bytes:
            self._refuse_head()
            raise _TooMuch
        self._reading = "body"
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop(self._timer)  # the request is whole: nothing of it can be late, however long its reply takes
        self._reading = self._timed = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop(self._unread)
        self._unread = self.loop.call_later(self.patience.unread_s, self._cut, "unread")

    def resume_writing(self) -> None:
        self._stop(self._unread)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what never became a request, in a form that the clients of every dialect can read."""
        status, words = self._refusal
        error = {"type": "invalid_request_error", "message": words, "param": None, "code": None}
        body = msgspec.json.encode({"type": "error", "error": error})
        head = [b"content-type: application/json", b"content-length: %d" % len(body), b"connection: close", b"", b""]
        self.transport.write(STATUS_LINE[status] + b"\r\n".join(head) + body)
        self.transport.close()

    def _refuse_head(self) -> None:
        self._refusal = (431, f"the headers are larger than {self.patience.head_bytes} bytes")
        CUT_OFF.labels("headers").inc()

    def _wait_for_the_rest(self) -> None:
        """Time what is still to come of a request, from when its head or body began."""
        if self._reading == self._timed:
            return
        self._stop(self._timer)
        self._timed = self._reading
        if self._reading == "head":
            self._timer = self.loop.call_later(self.patience.head_s, self._slow_head)
        elif self._reading == "body":
            self._timer = self.loop.call_later(self.patience.body_s + _GRACE_S, self._cut, "body")

    def _slow_head(self) -> None:
        if not self._head_bytes:
            self.transport.close()
        elif not self.transport.is_closing():
            self._refusal = (408, f"the headers were not whole within {self.patience.head_s:g} seconds")
            CUT_OFF.labels("slow headers").inc()
            self.send_400_response("")

    def _cut(self, what: str) -> None:
        if not self.transport.is_closing():
            CUT_OFF.labels(what).inc()
        self.transport.abort()

    def _stop(self, timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


def bounded(patience: Patience) -> type[BoundedProtocol]:
    """The protocol with these bounds, for uvicorn's `http`."""
    return type("Bounded", (BoundedProtocol,), {"patience": patience})
