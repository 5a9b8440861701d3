"""An engine whose replies are written in advance, behind a real proxy."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from tokenizers import Tokenizer

from tests.servers import free_port


class ScriptedEngine:
    """vLLM's generate endpoint with its replies written in advance; the n-th call gets the n-th reply."""

    def __init__(self, model: str) -> None:
        self._tokenizer = Tokenizer.from_file(f"{model}/tokenizer.json")
        self._end = self._tokenizer.encode("<|im_end|>", add_special_tokens=False).ids
        self.script([])

    def script(self, replies: Sequence[str]) -> None:
        """Begin anew with other replies; after the last of them it is repeated."""
        self._replies = list(replies)
        self.prompts: list[list[int]] = []
        self.sampled: list[list[int]] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/inference/v1/generate", self._generate)
        return app

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "p", "max_model_len": 8192}]})

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        self.prompts.append((await request.json())["token_ids"])
        reply = self._replies[min(len(self.sampled), len(self._replies) - 1)]
        ids = [*self._tokenizer.encode(reply, add_special_tokens=False).ids, *self._end]
        self.sampled.append(ids)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        half = len(ids) // 2
        for part, last in ((ids[:half], False), (ids[half:], True)):
            await response.write(b"data: " + json.dumps(self._chunk(part, len(ids), last)).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response

    def _chunk(self, ids: list[int], length: int, last: bool) -> dict[str, Any]:
        content = [{"token": f"token_id:{token}", "token_id": token, "logprob": -0.5} for token in ids]
        choice: dict[str, Any] = {"index": 0, "token_ids": ids, "logprobs": {"content": content}}
        choice["finish_reason"] = "stop" if last else None
        if last:
            choice["weight_versions"] = [{"start": 0, "end": length, "version": "3"}]
        return {"choices": [choice]}


@asynccontextmanager
async def serving(engine: ScriptedEngine) -> AsyncIterator[str]:
    runner = web.AppRunner(engine.app())
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
