"""The demo against a small world that behaves like the real one: a proxy, an engine, a judge and a trainer that learns
to answer in one sentence after one batch. No model, no server but a loopback one."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from rich.console import Console

from drivetrain.cli.demo.chat import TEMPERATURE, Chat, Problems, RequestFailed
from drivetrain.cli.demo.command import HELDOUT
from drivetrain.cli.demo.evaluate import evaluate
from drivetrain.cli.demo.experiment import Experiment, Plan
from drivetrain.cli.demo.main import exit_status
from drivetrain.cli.demo.plots import save_png
from drivetrain.cli.demo.questions import heldout_questions
from drivetrain.cli.demo.report import print_clients, print_report
from drivetrain.cli.demo.result import Result, read_result
from drivetrain.cli.demo.taste import load_taste
from drivetrain.cli.stack import StackUrls
from drivetrain.common.bus import MemoryBus
from drivetrain.common.events import TurnFollowed, TurnScored, WeightsCandidate, WeightsPromoted

TASTE = load_taste()
BATCH = 16
ONE_SENTENCE = "This is one short sentence about {subject}, as it was wanted."


@dataclass
class World:
    """What a stack is to the demo. `broken` says how the next replies go wrong."""

    bus: MemoryBus = field(default_factory=MemoryBus)
    version: int = 0
    scored: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    broken: str = ""
    url: str = ""

    @property
    def urls(self) -> StackUrls:
        return StackUrls(proxy=self.url, nats="", nats_monitor="", valkey="", vllm=self.url, admin={})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.broken == "refused":
            return web.json_response({"error": {"message": "no replica"}}, status=503)
        messages = body["messages"]
        if len(messages) > 1 and "X-Session-Id" in request.headers:
            await self.judge(request.headers["X-Session-Id"], len(messages), messages)
        return await self.stream(request, self.reply(messages))

    def reply(self, messages: list[dict[str, str]]) -> str:
        short = self.version > 0 or len(messages) >= 5
        subject = messages[0]["content"].replace(".", ",").replace("?", ",")
        return ONE_SENTENCE.format(subject=subject) if short else f"It is a thing. {subject}. It is known. It is so."

    async def stream(self, request: web.Request, text: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        finish = {"cut": None, "aborted": "abort"}.get(self.broken, "stop")
        for delta, reason in (({"role": "assistant", "content": text[:5]}, None), ({"content": text[5:]}, finish)):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            chunk = {
                "id": "c",
                "object": "chat.completion.chunk",
                "created": 0,
                "model": "default",
                "choices": [choice],
            }
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    async def judge(self, session: str, n: int, messages: list[dict[str, str]]) -> None:
        turn = f"{session}-{n}"
        where: dict[str, Any] = {
            "tenant": "t",
            "policy": "default",
            "session": session,
            "turn": turn,
            "n": 0,
            "at": 0.0,
        }
        await self.bus.publish(TurnFollowed(**where, messages=messages[-1:], before=[], reply={}))
        glad = messages[-1]["content"] in TASTE.thanks()
        hints = [] if glad else ["Answer in one sentence."]
        await self.bus.publish(TurnScored(**where, judge="rules", reward=1.0 if glad else -1.0, votes=[], hints=hints))
        self.scored += 1
        if self.scored % BATCH == 0:
            await self.train()

    async def train(self) -> None:
        self.version += 1
        what: dict[str, Any] = {"policy": "default", "version": self.version, "at": 0.0}
        metrics = {"turns": float(BATCH), "kl_reference": 0.01 * self.version, "entropy": 2.0}
        await self.bus.publish(
            WeightsCandidate(**what, parent=self.version - 1, digest="d", step=self.version, metrics=metrics)
        )
        await self.bus.publish(WeightsPromoted(**what, replicas=["r"]))

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "default"}]})

    async def completions(self, request: web.Request) -> web.Response:
        return web.json_response({"choices": [{"prompt_logprobs": [None, {"1": {"logprob": -2.0}}]}]})


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    app = web.Application()
    app.add_routes(
        [
            web.post("/v1/chat/completions", world.chat),
            web.post("/v1/completions", world.completions),
            web.get("/v1/models", world.models),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    world.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield world
    await runner.cleanup()


def plan(run_dir: Path, sessions: int = 40, updates: int | None = None, seconds: float = 60) -> Plan:
    deadline = time.monotonic() + seconds
    return Plan(TASTE, 0, sessions, updates, HELDOUT, deadline, "combine", "a-model", "default", run_dir)


async def run(world: World, wanted: Plan) -> tuple[Result, str]:
    console = Console(file=StringIO(), width=160)
    result = await Experiment(wanted, world.urls, world.bus, console, time.monotonic()).run()
    print_report(console, result)
    print_clients(console, world.url, "default")
    return result, console.file.getvalue()  # type: ignore[attr-defined]


async def test_the_whole_demo(world: World, tmp_path: Path) -> None:
    result, printed = await asyncio.wait_for(run(world, plan(tmp_path)), 50)

    assert result.before.satisfied.hits == 0
    assert result.after.satisfied.share > 0.9
    assert result.apart
    assert result.gain_points > 90
    assert result.sessions == 40
    assert result.version == len(result.updates) == world.version >= 2
    assert result.troubles == 0
    assert result.delay.measured > 0
    assert result.trouble.requests == len(world.requests)
    assert result.before.perplexity == pytest.approx(7.389, abs=1e-3)
    assert exit_status(0, result) == 0

    assert "do not overlap" in printed
    assert "satisfied (%)" in printed
    assert f"{world.url}/v1" in printed
    assert "0 failed, 0 were cut, 0 aborted" in printed

    result.write()
    assert read_result(tmp_path) == result
    assert save_png(result).read_bytes().startswith(b"\x89PNG")


async def test_stops_after_the_wanted_updates(world: World, tmp_path: Path) -> None:
    result, _ = await asyncio.wait_for(run(world, plan(tmp_path, sessions=500, updates=1)), 50)
    assert 1 <= len(result.updates) <= 2
    assert result.sessions < 40


async def test_stops_in_time(world: World, tmp_path: Path) -> None:
    result, _ = await asyncio.wait_for(run(world, plan(tmp_path, sessions=500, seconds=1)), 50)
    assert result.sessions == 0
    assert exit_status(0, result) == 1


async def test_failures_are_counted_and_shown(world: World, tmp_path: Path) -> None:
    world.broken = "refused"
    result, printed = await asyncio.wait_for(run(world, plan(tmp_path, sessions=3)), 50)
    assert result.trouble.failed == result.trouble.requests == 2 * len(heldout_questions()) + 3
    assert "no replica" in printed
    assert exit_status(0, result) == 1


async def test_heldout_questions_are_not_recorded_and_sessions_are_named(world: World, tmp_path: Path) -> None:
    await asyncio.wait_for(run(world, plan(tmp_path, sessions=2)), 50)
    held = [h for h in world.headers if h.get("x-drivetrain-record") == "off"]
    named = {h["x-session-id"] for h in world.headers if "x-session-id" in h}
    assert len(held) == 2 * len(heldout_questions())
    assert not any("x-session-id" in h for h in held)
    assert len(named) == 2
    assert {request["temperature"] for request in world.requests} == {TEMPERATURE}


@pytest.mark.parametrize(("broken", "counted"), [("cut", "cut"), ("aborted", "aborted")])
async def test_a_reply_that_is_not_whole_is_counted(world: World, broken: str, counted: str) -> None:
    world.broken = broken
    chat = Chat(f"{world.url}/v1", "default", Problems())
    reply = await chat.ask([{"role": "user", "content": "What is snow?"}], 50, {})
    assert not reply.whole
    assert getattr(chat.problems, counted) == chat.problems.total == 1
    await chat.close()


async def test_a_failed_request_is_not_retried(world: World) -> None:
    world.broken = "refused"
    chat = Chat(f"{world.url}/v1", "default", Problems())
    with pytest.raises(RequestFailed, match="no replica"):
        await chat.ask([{"role": "user", "content": "What is snow?"}], 50, {})
    assert len(world.requests) == chat.problems.failed == 1
    await chat.close()


async def test_a_failed_heldout_question_counts_as_a_miss(world: World) -> None:
    world.broken = "refused"
    chat = Chat(f"{world.url}/v1", "default", Problems())
    found = await evaluate(chat, TASTE, heldout_questions()[:4], world.url)
    assert found.satisfied.hits == 0
    assert [answer.finish for answer in found.answers] == ["failed"] * 4
    await chat.close()


def test_a_signal_that_ends_the_demo_early_is_its_status() -> None:
    assert exit_status(130, None) == 130
