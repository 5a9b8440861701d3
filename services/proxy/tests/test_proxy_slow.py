"""Clients that are slow, or send too much of a head: answered where they can be, and held only so long."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from drivetrain.proxy.access import protocol
from drivetrain.proxy.access.protocol import Patience
from drivetrain.proxy.api.http import EventStream
from drivetrain.proxy.api.listeners import Listeners
from drivetrain.proxy.settings import ListenSettings
from tests.slow_clients import POST, trickle

Serve = Callable[..., AbstractAsyncContextManager["App"]]


class App:
    """Reads the body and answers its length; under /endless it streams for as long as somebody reads."""

    def __init__(self) -> None:
        self.port = 0
        self.ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = b"%d" % len(await request.body())
        if scope["path"] != "/endless":
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]}
            )
            await send({"type": "http.response.body", "body": body})
            return

        async def endless() -> AsyncIterator[bytes]:
            while True:
                await asyncio.sleep(0)  # as one waits for an engine
                yield bytes(1 << 16)

        async def close() -> None:
            self.ended.set()

        await EventStream(endless(), close)(scope, receive, send)


@pytest.fixture
def serve() -> Serve:
    @asynccontextmanager
    async def serving(**patience: Any) -> AsyncIterator[App]:
        app = App()
        listeners = Listeners(app, ListenSettings(port=0), Patience(**patience))
        accepting = asyncio.Event()
        task = asyncio.create_task(listeners.serve(accepting.set))
        try:
            await asyncio.wait_for(accepting.wait(), 5)
            app.port = int(listeners.addresses[0].rsplit(":", 1)[1])
            yield app
        finally:
            listeners.stop()
            await task
            listeners.close()

    return serving


def cut_off(what: str) -> float:
    return REGISTRY.get_sample_value("drivetrain_proxy_connections_cut_off_total", {"what": what}) or 0.0


async def test_headers_that_trickle_are_answered_and_cut_off(serve: Serve) -> None:
    before = cut_off("slow headers")
    async with serve(head_s=0.3) as app:
        status, words, took = await trickle(app.port, b"GET / HTTP/1.1\r\nHost: proxy\r\nX-A: ", b"a")
        assert (status, words) == (408, "the headers were not whole within 0.3 seconds")
        assert 0.3 <= took < 2
        status, _, took = await trickle(app.port, b"")  # not even a first byte
        assert (status, took < 2) == (0, True)
    assert cut_off("slow headers") - before == 1


@pytest.mark.parametrize("end", [b"\r\n\r\n", b""])
async def test_headers_that_are_too_large(serve: Serve, end: bytes) -> None:
    before = cut_off("headers")
    async with serve(head_bytes=2000) as app:
        async with httpx.AsyncClient() as http:
            at = f"http://127.0.0.1:{app.port}"
            assert (await http.post(at, headers={"x-a": "a" * 1000}, content=b"a" * 50_000)).text == "50000"
        large = b"GET / HTTP/1.1\r\nHost: proxy\r\nX-A: " + b"a" * 3000 + end
        status, words, _ = await trickle(app.port, large)
        assert (status, words) == (431, "the headers are larger than 2000 bytes")
    assert cut_off("headers") - before == 1


async def test_small_headers_that_never_end_are_too_large_in_time(serve: Serve) -> None:
    async with serve(head_bytes=2000) as app:
        status, words, _ = await trickle(app.port, b"GET / HTTP/1.1\r\n", b"X-A: " + b"a" * 400 + b"\r\n", 0.01)
    assert (status, words) == (431, "the headers are larger than 2000 bytes")


async def test_what_is_no_http_is_told_so(serve: Serve) -> None:
    async with serve() as app:
        status, words, _ = await trickle(app.port, b"\x16\x03\x01\x02\x00\x01\r\n\r\n")
    assert (status, words) == (400, "this is not a valid HTTP/1.1 request")


async def test_a_kept_connection_has_its_time_anew_for_each_request(serve: Serve) -> None:
    async with serve(head_s=0.3, body_s=0.3) as app, httpx.AsyncClient(base_url=f"http://127.0.0.1:{app.port}") as http:
        for _ in range(3):
            assert (await http.post("/", content=b"abc")).text == "3"
            await asyncio.sleep(0.2)


async def test_a_body_that_never_ends_is_cut_off(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_GRACE_S", 0.1)
    before = cut_off("body")
    async with serve(body_s=0.2) as app:
        status, _, took = await trickle(app.port, POST + b"Content-Length: 100000\r\n\r\n", b" ")
    assert status == 0  # this app has no answer for it: the proxy's has
    assert 0.3 <= took < 2
    assert cut_off("body") - before == 1


async def test_a_reader_that_does_not_read_is_cut_off_and_its_stream_closed(serve: Serve) -> None:
    before = cut_off("unread")
    async with serve(unread_s=0.3) as app:
        _, writer = await asyncio.open_connection("127.0.0.1", app.port, limit=1)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: proxy\r\n\r\n")
        await asyncio.wait_for(app.ended.wait(), 10)
        writer.close()
    assert cut_off("unread") - before == 1


async def test_a_slow_reader_is_no_reader_that_is_gone(serve: Serve) -> None:
    async with serve(unread_s=0.5) as app:
        reader, writer = await asyncio.open_connection("127.0.0.1", app.port)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: proxy\r\n\r\n")
        for _ in range(8):  # longer than a second in all
            for _ in range(100):
                await reader.readexactly(1 << 16)
            await asyncio.sleep(0.15)
        assert not app.ended.is_set()
        writer.close()
        await asyncio.wait_for(app.ended.wait(), 10)
