"""The engine of the proxy's tests: an HTTP server that speaks vLLM's generate protocol and samples what it is told."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from drivetrain.common.telemetry.admin import listen


@dataclass
class Script:
    """What the stub engine does with one request. `hold` is waited for after `hold_after` tokens; `pace` seconds lie
    between tokens; `raw` is written after them. With another `status`, `said` is the error's message."""

    ids: list[int]
    finish: str = "stop"
    versions: list[tuple[str, int, int]] | None = None
    hold: asyncio.Event | None = None
    hold_after: int = 1
    die_after: int | None = None
    status: int = 200
    said: str = "the stub refuses"
    reset: bool = False
    pace: float = 0.0
    raw: bytes | None = None


def logprob(token: int) -> float:
    """The stub engine's logprob of a token: exact in float32, different for neighbours."""
    return -0.25 * (1 + token % 8)


@dataclass
class StubEngine:
    """An HTTP server that speaks vLLM's generate protocol and samples what the test says: `scripts` one after another,
    then what `choose` makes of the request, or `always`."""

    url: str = ""
    healthy: bool = True
    version: str = "7"
    scripts: list[Script] = field(default_factory=list)
    always: Script | None = None
    choose: Callable[[dict[str, Any]], Script] | None = None
    runner: web.AppRunner | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    aborted: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, ids: Sequence[int], **options: Any) -> list[int]:
        """Sample these ids for the next request; see `Script` for what else can happen."""
        self.scripts.append(Script(list(ids), **options))
        return list(ids)

    def say_always(self, ids: Sequence[int], **options: Any) -> None:
        """Sample these ids for every request for which there is no script."""
        self.always = Script(list(ids), **options)

    async def kill(self) -> None:
        """What callers see of a SIGKILL: nobody listens, and every connection is reset."""
        assert self.runner is not None
        assert self.runner.server is not None
        for site in set(self.runner.sites):
            await site.stop()
        for connection in self.runner.server.connections:
            if connection.transport:
                connection.transport.abort()

    def _script(self) -> Script:
        if self.choose and not self.scripts:
            return self.choose(self.requests[-1])
        return self.always if self.always and not self.scripts else self.scripts.pop(0)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        self.asked.set()
        script = self._script()
        if script.status != 200:
            return web.json_response({"error": {"message": script.said}}, status=script.status)
        if script.reset and request.transport:
            request.transport.abort()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await self._stream(request, response, script)
        except (asyncio.CancelledError, ConnectionResetError):
            self.aborted.set()
            raise
        return response

    async def _stream(self, request: web.Request, response: web.StreamResponse, script: Script) -> None:
        for index, token in enumerate(script.ids):
            if script.die_after == index:
                assert request.transport is not None
                request.transport.abort()
                return
            await response.write(event(script, index, token, self.requests[-1]))
            if script.pace:
                await asyncio.sleep(script.pace)
            if script.hold and index + 1 == script.hold_after:
                await script.hold.wait()
        if script.raw is not None:
            await response.write(script.raw)
        usage = {"prompt_tokens": len(self.requests[-1]["token_ids"]), "completion_tokens": len(script.ids)}
        details = {"prompt_tokens_details": {"cached_tokens": 3}}
        await response.write(b"data: " + json.dumps({"choices": [], "usage": usage | details}).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")

    async def health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self.healthy else 503)

    async def weight_info(self, request: web.Request) -> web.Response:
        return web.json_response({"weight_version": self.version})

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "policy", "max_model_len": 1234}]})


def candidates(token: int, wanted: int) -> list[dict[str, Any]]:
    """The sampled token and the likeliest others, as vLLM lists them."""
    others = [{"token_id": 40 + i, "logprob": -0.125 - i / 16, "rank": i + 1} for i in range(wanted - 1)]
    return [{"token_id": token, "logprob": logprob(token), "rank": wanted}, *others]


def event(script: Script, index: int, token: int, request: dict[str, Any]) -> bytes:
    """One token as vLLM writes it."""
    last = index + 1 == len(script.ids)
    versions = script.versions or [("7", 0, len(script.ids))]
    tops = candidates(token, wanted) if (wanted := request.get("sampling_params", {}).get("logprobs")) else []
    choice = {
        "index": 0,
        "finish_reason": script.finish if last else None,
        "stop_reason": None,
        "token_ids": [token],
        "weight_versions": [{"version": v, "start": a, "end": b} for v, a, b in versions] if last else None,
        "logprobs": {"content": [{"token_id": token, "logprob": logprob(token), "rank": 1, "top_logprobs": tops}]},
    }
    shown = {}
    if request.get("return_token_ids") and index == 0:
        # An image is five tokens to the stub, where the prompt marks it with one.
        shown = {"prompt_token_ids": request["token_ids"] + [0] * 4 * len(request.get("content_parts", ()))}
    return b"data: " + json.dumps({"request_id": "r", "usage": None, "choices": [choice], **shown}).encode() + b"\n\n"


@asynccontextmanager
async def stub_engine() -> AsyncIterator[StubEngine]:
    engine = StubEngine()
    app = web.Application()
    app.router.add_post("/inference/v1/generate", engine.generate)
    app.router.add_get("/v1/models", engine.models)
    app.router.add_get("/health", engine.health)
    app.router.add_get("/weight_info", engine.weight_info)
    engine.runner = runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    listener = listen("127.0.0.1", 0)
    await web.SockSite(runner, listener).start()
    engine.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield engine
    finally:
        await runner.cleanup()
