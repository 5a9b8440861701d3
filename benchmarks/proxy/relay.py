"""The least that a relay can do: FastAPI, and each chunk of the upstream's stream parsed and written again."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse


def build(upstream: str) -> FastAPI:
    """The relay to an upstream's chat completions."""
    clients: list[aiohttp.ClientSession] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            clients.append(client)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> StreamingResponse:
        body = json.loads(await request.body())
        return StreamingResponse(relay(body), media_type="text/event-stream")

    async def relay(body: dict[str, object]) -> AsyncIterator[bytes]:
        async with clients[0].post(f"{upstream}/v1/chat/completions", json=body) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    chunk = json.loads(line[6:])
                    yield b"data: " + json.dumps(chunk).encode() + b"\n\n"
                elif line.startswith(b"data:"):
                    yield line + b"\n"

    return app


if __name__ == "__main__":
    uvicorn.run(build(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
