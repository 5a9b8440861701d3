"""An engine for the chaos tests: vLLM's generate protocol, paced, with tokens that follow from the request's id."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from drivetrain.common.telemetry.admin import listen

PACE_S = 0.1
TOKENS = 9
END = 2


def sampled(request_id: str) -> list[int]:
    """What the engine samples for a request: other tokens for each, single bytes of text, then the end token."""
    chance = random.Random(request_id)
    return [chance.randrange(40, 90) for _ in range(TOKENS)] + [END]


def chunk(ids: list[int], index: int) -> bytes:
    """One token as vLLM writes it."""
    last = index + 1 == len(ids)
    choice = {
        "index": 0,
        "finish_reason": "stop" if last else None,
        "token_ids": [ids[index]],
        "weight_versions": [{"version": "1", "start": 0, "end": len(ids)}] if last else None,
        "logprobs": {"content": [{"token_id": ids[index], "logprob": -0.5, "rank": 1, "top_logprobs": []}]},
    }
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


class Engine:
    """`asked` are the ids of all requests, `aborted` of those that their caller gave up. While `held`, no reply goes
    beyond its first token."""

    def __init__(self) -> None:
        self.url, self.held = "", False
        self.asked: set[str] = set()
        self.aborted: set[str] = set()

    async def generate(self, request: web.Request) -> web.StreamResponse:
        request_id = (await request.json())["request_id"]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        ids = sampled(request_id)
        self.asked.add(request_id)
        try:
            for index in range(len(ids)):
                await response.write(chunk(ids, index))
                await asyncio.sleep(3600 if self.held else PACE_S)
            await response.write(b'data: {"choices": [], "usage": {}}\n\ndata: [DONE]\n\n')
        except (asyncio.CancelledError, ConnectionResetError):
            self.aborted.add(request_id)
            raise
        return response


@asynccontextmanager
async def serving() -> AsyncIterator[Engine]:
    """An engine that listens on loopback."""

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "policy", "max_model_len": 30_000}]})

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    async def weights(_: web.Request) -> web.Response:
        return web.json_response({"weight_version": "1"})

    engine, app = Engine(), web.Application()
    app.router.add_post("/inference/v1/generate", engine.generate)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/health", health)
    app.router.add_get("/weight_info", weights)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    listener = listen("127.0.0.1", 0)
    await web.SockSite(runner, listener).start()
    engine.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield engine
    finally:
        await runner.cleanup()
