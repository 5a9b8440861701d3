"""How large a request may be and how slow its body, and that the settings say so."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx

from tests.slow_clients import CHAT, POST, trickle

QUESTION = {"role": "user", "content": "The capital of France?"}


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
