"""A local OpenAI-compatible server for a judge model, which answers as a test says."""

import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from aiohttp import web

from drivetrain.judge.asking.asker import Asker
from drivetrain.judge.endpoint import PROBE, Endpoint
from drivetrain.judge.settings import ModelSettings
from drivetrain.judge.sources.base import Case
from drivetrain.judge.sources.model import ModelJudge

CASE = Case(
    ({"role": "user", "content": "What is rain?"},),
    {"role": "assistant", "content": "- water\n- clouds"},
    ({"role": "user", "content": "That's a list. Please write one plain sentence."},),
)
Say = Callable[[dict[str, Any]], str]
Answer = Callable[[dict[str, Any], int], Awaitable[web.StreamResponse]]


def ballot(vote: int, evidence: str = "What is rain?", hint: str | None = None) -> web.Response:
    content = json.dumps({"vote": vote, "evidence": evidence, "hint": hint})
    return web.json_response({"choices": [{"message": {"role": "assistant", "content": content}}]})


@asynccontextmanager
async def server(answer: Answer, **settings: Any) -> AsyncIterator[tuple[ModelJudge, list[dict[str, Any]]]]:
    """A judge on a server that answers its n-th request (from 0) with `answer(body, n)`; probes count too and are not
    among what is seen."""
    seen: list[dict[str, Any]] = []
    count = itertools.count()

    async def completions(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if body["messages"] != PROBE:
            seen.append({**body, "authorization": request.headers.get("Authorization")})
        return await answer(body, next(count))

    app = web.Application()
    app.router.add_post("/v1/chat/completions", completions)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    defaults: dict[str, Any] = {
        "timeout_s": 2.0, "retry_wait_s": 0.0, "attempts": 2, "rounds": 1, "breaker_failures": 100,
    }  # fmt: skip
    chosen = ModelSettings.model_validate({"enabled": True, "url": url, "model": "m", **defaults, **settings})
    try:
        async with httpx.AsyncClient() as client:
            yield ModelJudge(Asker(chosen, Endpoint(chosen, client))), seen
    finally:
        await runner.cleanup()


def asking(text: str) -> Case:
    """The same case with another next state."""
    return Case(CASE.before, CASE.reply, ({"role": "user", "content": text},))


@asynccontextmanager
async def asked(
    say: Callable[[dict[str, Any]], str], **settings: Any
) -> AsyncIterator[tuple[Asker, list[dict[str, Any]]]]:
    """What asks a judge model that says `say(body)` to each request, without a server; and what it was asked."""
    seen: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        return httpx.Response(200, json={"choices": [{"message": {"content": say(seen[-1])}}]})

    values = {"enabled": True, "url": "http://judge/v1", "model": "m", "attempts": 1, "rounds": 1, **settings}
    chosen = ModelSettings.model_validate(values)
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        yield Asker(chosen, Endpoint(chosen, client)), seen
