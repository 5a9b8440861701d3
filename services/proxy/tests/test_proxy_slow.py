"""Clients that are slow, or send too much: each is answered where it can be, and holds the proxy only so long."""

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
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

Serve = Callable[..., AbstractAsyncContextManager["App"]]
CHAT = "/v1/chat/completions"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: proxy\r\nContent-Type: application/json\r\n"
QUESTION = {"role": "user", "content": "The capital of France?"}


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


async def trickle(port: int, start: bytes, drop: bytes = b"", every_s: float = 0.05) -> tuple[int, str, float]:
    """Send, then a drop every so often until the proxy ends the connection: status, message, and seconds it took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()
    writer.write(start)

    async def dripping() -> None:
        while drop:
            await asyncio.sleep(every_s)
            writer.write(drop)

    drips = asyncio.create_task(dripping())
    try:
        async with asyncio.timeout(10):
            answer = await whole(reader)
    finally:
        drips.cancel()
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1]) if head else 0
    return status, json.loads(body)["error"]["message"] if status >= 400 else body.decode(), time.monotonic() - began


async def whole(reader: asyncio.StreamReader) -> bytes:
    """All there is until the other side ends the connection, one way or the other."""
    found = b""
    try:
        while part := await reader.read(1 << 16):
            found += part
    except ConnectionResetError:
        pass
    return found


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


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"x": value}
    return value


def tool(levels: int) -> dict[str, Any]:
    """A tool whose JSON has so many levels, its own two counted."""
    return {"type": "function", "function": {"name": "f", "description": "", "parameters": nested(levels - 2)}}


async def test_too_much_is_refused_in_the_dialects_words(
    start_proxy: Any, engine: Any, encode: Callable[[str], list[int]]
) -> None:
    engine.say_always(encode("Paris."))
    bounds = {"messages": 3, "depth": 6, "body_bytes": 4000, "body_s": 0.2}
    async with start_proxy([engine.url], bounds=bounds) as proxy, httpx.AsyncClient(base_url=proxy.url) as http:

        async def post(body: Any, path: str = CHAT) -> tuple[int, str]:
            answer = await http.post(path, json={"model": "default", "max_tokens": 50} | body)
            return answer.status_code, answer.json().get("error", {}).get("message", "")

        talk = [QUESTION, {"role": "assistant", "content": "Paris."}] * 2
        assert await post({"messages": talk[:3]}) == (200, "")
        for path in (CHAT, "/v1/messages"):
            status, words = await post({"messages": [*talk, QUESTION]}, path)
            assert status == 400
            assert "5 messages are more than the 3 allowed: compact the conversation" in words
        assert await post({"messages": [QUESTION], "tools": [tool(6)]}) == (200, "")
        assert await post({"messages": [QUESTION], "tools": [tool(7)]}) == (
            400,
            "tools: JSON of more than 6 levels",
        )
        assert await post({"messages": [QUESTION | {"content": "a" * 4000}]}) == (
            413,
            "the body is larger than 4000 bytes",
        )

        async def endless() -> AsyncIterator[bytes]:
            yield b" " * 3000
            yield b" " * 3000

        assert (await http.post(CHAT, content=endless())).status_code == 413  # no length was declared
        asked = len(engine.requests)
        very = b'{"model": "default", "messages": [], "tools": ' + b"[" * 1500 + b"]" * 1500 + b"}"
        assert (await http.post(CHAT, content=very)).status_code == 400
        assert len(engine.requests) == asked
        reader, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
        writer.write(POST + b"Content-Length: 100\r\n\r\n{")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        assert head.startswith(b"HTTP/1.1 408 ")
        assert b"the body was not whole within 0.2 seconds" in await reader.read(1000)
        writer.close()


async def test_the_settings_say_how_much_and_how_long(
    engine: Any, encode: Callable[[str], list[int]], model_folder: Path, tmp_path: Path, nats_url: str, valkey_url: str
) -> None:
    engine.say_always(encode("Paris."))
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        port, admin = one.getsockname()[1], two.getsockname()[1]
    own = tmp_path / "p.sock"
    settings = {
        "SECRET": "a secret of the tests",
        "MODEL": str(model_folder),
        "BUS__URL": nats_url,
        "SESSIONS__REDIS_URL": valkey_url,
        "ENGINE__REPLICAS": engine.url,
        "LISTEN__PORT": str(port),
        "LISTEN__UNIX": "p.sock",
        "ADMIN__PORT": str(admin),
        "LIMITS__MESSAGES": "2",
        "LIMITS__DEPTH": "4",
        "LIMITS__HEAD_BYTES": "1024",
        "LIMITS__HEAD_S": "0.4",
        "LIMITS__BODY_S": "0.3",
        "REDACTION__CUSTOM__CAPITAL": "Paris",
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRIVETRAIN_")}
    environment |= {f"DRIVETRAIN_PROXY_{name}": value for name, value in settings.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "drivetrain.proxy", env=environment, cwd=tmp_path
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
            await until_ready(http, admin, process)

            async def post(body: Any) -> str:
                return (await http.post(CHAT, json={"model": "default"} | body)).text

            assert "3 messages are more than the 2 allowed" in await post({"messages": [QUESTION] * 3})
            assert "JSON of more than 4 levels" in await post({"messages": [QUESTION], "tools": [tool(5)]})
            assert '"Paris."' in await post({"messages": [QUESTION]})
        assert (await trickle(port, b"GET / HTTP/1.1\r\nX-A: " + b"a" * 2000))[0] == 431
        assert (await trickle(port, b"GET / HTTP/1.1\r\nX-A: ", b"a"))[0] == 408
        reader, writer = await asyncio.open_unix_connection(str(own))
        writer.write(POST + b"Content-Length: 100\r\n\r\n{")
        assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 408 ")
        writer.close()
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert [path.name for path in own.parent.iterdir()] == ["spool"]  # the socket is gone
    spooled = b"".join(file.read_bytes() for file in (tmp_path / "spool").rglob("*") if file.is_file())
    assert b"Paris" not in spooled


async def until_ready(http: httpx.AsyncClient, admin: int, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(60):
        while process.returncode is None:
            try:
                if (await http.get(f"http://127.0.0.1:{admin}/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
    raise AssertionError("the proxy ended before it was ready")
