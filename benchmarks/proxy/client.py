"""One client connection: a request, and the arrival of each of its tokens."""

import asyncio
import re
import time
from collections.abc import Callable
from typing import cast

import httptools
import msgspec

_CONTENT = re.compile(rb'"content": ?"([^"]+)"')
"""The text that an event carries; replies are words without quotes."""

OnTokens = Callable[[int, int, float], None]
"""Called with the number of the first token that arrived, how many, and when."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a request ended: whole means status 200, its end marker, and its end reason. Stale means that the server
    had closed a connection that was idle: every client asks again then."""

    whole: bool
    stale: bool = False
    tokens: int
    words: str = ""


class Client(asyncio.Protocol):
    """A connection to a candidate that is kept open. One request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._ended: asyncio.Future[Outcome] | None = None
        self._asked = 0
        self._begin(lambda first, count, at: None)

    def _begin(self, on_tokens: OnTokens) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._on_tokens = on_tokens
        self.tokens, self._rest, self._at = 0, b"", 0.0
        self._finished = self._marked = False
        self.kept: list[bytes] | None = None

    async def ask(self, request: bytes, on_tokens: OnTokens, *, keep: bool = False) -> Outcome:
        """Send a request; returns when the answer is over. With `keep` the answer's body stays in `kept`."""
        assert self._transport is not None
        self._begin(on_tokens)
        self.kept = [] if keep else None
        self._ended = asyncio.get_running_loop().create_future()
        self._asked += 1
        self._transport.write(request)
        return await self._ended

    @property
    def open(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None

    def close(self) -> None:
        """Leave at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._end(f"the connection was lost ({error!r})", stale=self._asked > 1 and not self._at)

    def data_received(self, data: bytes) -> None:
        self._at = time.monotonic()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(repr(error))
            self.close()

    def on_body(self, body: bytes) -> None:
        if self.kept is not None:
            self.kept.append(body)
        text = self._rest + body
        end = text.rfind(b"\n") + 1
        lines, self._rest = text[:end], text[end:]
        self._finished = self._finished or b'"stop"' in lines
        self._marked = self._marked or b"data: [DONE]" in lines
        if count := sum(words_in(text) for text in _CONTENT.findall(lines)):
            self._on_tokens(self.tokens, count, self._at)
            self.tokens += count

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        missing = "no end reason" if not self._finished else "no end marker" if not self._marked else ""
        self._end(f"status {status}: {self._rest[:200]!r}" if status != 200 else missing)
        if not self._parser.should_keep_alive():
            self.close()

    def _end(self, words: str, *, stale: bool = False) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(Outcome(whole=not words, stale=stale, tokens=self.tokens, words=words))


def words_in(text: bytes) -> int:
    """How many tokens a piece of a reply has: each is a word with the space before it, which the first may lack."""
    return text.count(b" ") + (not text.startswith(b" "))


KEY = "sk-bench-0123456789abcdef"
"""The API key that every candidate is started with, where it wants one."""


def http_request(path: str, body: bytes) -> bytes:
    """A POST of JSON as bytes."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
