"""Clients that send slowly, byte by byte, and what they are told."""

import asyncio
import json
import time

CHAT = "/v1/chat/completions"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: proxy\r\nContent-Type: application/json\r\n"


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
