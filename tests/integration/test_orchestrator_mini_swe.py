"""A real mini-swe-agent works on a task through the real proxy; only the engine behind the proxy is scripted."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import ClientSession, web
from tokenizers import Tokenizer

from drivetrain.cli.models import prepare_model
from drivetrain.common.bus import NatsBus, connect
from drivetrain.common.events import (
    Event,
    RolloutFinished,
    RolloutRef,
    RolloutRequested,
    Signal,
    TurnRecorded,
)
from drivetrain.common.settings import BusSettings
from drivetrain.common.tasks import load_task, plain
from tests.sandboxes import BACKENDS
from tests.servers import free_port, nats_command, running

ROOT = Path(__file__).parents[2]
MINI = ROOT / ".harness" / "mini" / "bin"
TASK = ROOT / "services/orchestrator/examples/write-greeting.yaml"
SECRET = "a secret of this test alone"
LIMIT_S = 60.0

pytestmark = pytest.mark.skipif(
    not (MINI / "mini").exists(), reason="mini-swe-agent is not installed in .harness/mini: `make test` does that"
)


def call(command: str) -> str:
    """A reply with one call of mini-swe-agent's only tool, as the model would write it."""
    arguments = json.dumps({"name": "bash", "arguments": {"command": command}})
    return f"I will run this.\n<tool_call>\n{arguments}\n</tool_call>"


SUBMIT = call("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")


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


@pytest.fixture(scope="module")
async def bus(nats_url: str) -> AsyncIterator[NatsBus]:
    bus = await connect(BusSettings(url=nats_url))
    yield bus
    await bus.close()


@dataclass(frozen=True)
class Stack:
    """A proxy in front of a scripted engine, and an orchestrator, as processes."""

    engine: ScriptedEngine
    bus: NatsBus
    policy: str

    async def run(self, task: dict[str, object], replies: Sequence[str]) -> RolloutFinished:
        """Run a task while the engine gives these replies."""
        self.engine.script(replies)
        return await finished(self.bus, await request(self.bus, self.policy, task))


@pytest.fixture(scope="module")
async def stack(
    nats_url: str, valkey_url: str, bus: NatsBus, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stack]:
    folder, policy, model = tmp_path_factory.mktemp("stack"), f"p{uuid4().hex[:8]}", prepare_model()
    engine = ScriptedEngine(model)
    async with (
        serving(engine) as engine_url,
        proxy(engine_url, nats_url, valkey_url, model, policy, folder) as proxy_url,
        service("orchestrator", folder / "o.log", closed(orchestrator_settings(nats_url, proxy_url, folder / "work"))),
    ):
        yield Stack(engine, bus, policy)


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


@asynccontextmanager
async def service(name: str, log: Path, settings: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """One of our services as a process of its own, ready; told to stop and waited for at the end."""
    admin = free_port()
    prefix = f"DRIVETRAIN_{name.upper()}_"
    own = {prefix + key: value for key, value in {**settings, "ADMIN__PORT": str(admin)}.items()}
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"drivetrain.{name}"), env={**os.environ, **own}, stdout=output, stderr=output
        )
    try:
        await until(lambda: _ready(f"http://127.0.0.1:{admin}/readyz", process, log))
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 15)


async def _ready(url: str, process: asyncio.subprocess.Process, log: Path) -> bool | None:
    assert process.returncode is None, _text(log)
    async with ClientSession() as http:
        try:
            async with http.get(url) as response:
                return response.status == 200 or None
        except OSError:
            return None


def _text(path: Path) -> str:
    return path.read_text()


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(LIMIT_S):
        while (found := await look()) is None:  # noqa: ASYNC110 - other processes bring it about
            await asyncio.sleep(0.05)
    return found


async def event(bus: NatsBus, stream: str, subject: str) -> Event | None:
    stored = await bus.get(stream, subject)
    return stored.event if stored else None


async def request(bus: NatsBus, policy: str, task: Mapping[str, object], timeout_s: float = 60.0) -> RolloutRef:
    ref = RolloutRef(run=f"run{uuid4().hex[:8]}", group="g", rollout="first", group_size=1)
    wish = RolloutRequested(rollout=ref, policy=policy, task=dict(task), timeout_s=timeout_s, at=time.time())
    await bus.publish(wish)
    return ref


async def finished(bus: NatsBus, ref: RolloutRef) -> RolloutFinished:
    found = await until(lambda: event(bus, "ROLLOUTS", f"rollout.finished.{ref.run}.{ref.rollout}"))
    assert isinstance(found, RolloutFinished)
    return found


async def outcome(bus: NatsBus, done: RolloutFinished) -> Signal:
    stored = await bus.last("SIGNALS", f"signal.outcome.*.{done.policy}.{done.session}.*")
    assert len(stored) == 1
    assert isinstance(stored[0].event, Signal)
    return stored[0].event


def orchestrator_settings(nats_url: str, proxy_url: str, folder: Path) -> dict[str, str]:
    return {
        "BUS__URL": nats_url,
        "PROXY_URL": proxy_url,
        "SECRET": SECRET,
        "WORK_FOLDER": str(folder),
        "HARNESS_PATH": json.dumps([str(MINI)]),
    }


def closed(settings: dict[str, str]) -> dict[str, str]:
    """No network but the proxy's socket, where this machine can do that."""
    return settings | ({"NETWORK": "proxy"} if "bubblewrap" in BACKENDS else {})


def example_task() -> dict[str, object]:
    task = load_task(TASK)
    assert task.harness == "mini-swe-agent"
    return plain(task)


@asynccontextmanager
async def proxy(
    engine_url: str, nats_url: str, valkey_url: str, model: str, policy: str, folder: Path
) -> AsyncIterator[str]:
    port = free_port()
    settings = {
        "BUS__URL": nats_url,
        "SESSIONS__REDIS_URL": valkey_url,
        "ENGINE__REPLICAS": engine_url,
        "LISTEN__PORT": str(port),
        "LISTEN__ROLLOUTS": str(folder / "sockets"),
        "MODEL": model,
        "POLICY": policy,
        "SECRET": SECRET,
        "SPOOL__FOLDER": str(folder / "spool"),
    }
    async with service("proxy", folder / "proxy.log", settings):
        yield f"http://127.0.0.1:{port}"


async def test_mini_swe_agent_solves_a_task_and_its_turns_belong_to_the_rollout(stack: Stack) -> None:
    done = await stack.run(example_task(), [call("echo 'hello world' > greeting.txt"), SUBMIT])
    assert (done.reason, done.outcome) == ("success", 1.0), done.detail
    signal = await outcome(stack.bus, done)
    assert (signal.value, signal.reason, signal.rollout) == (1.0, "success", done.rollout)
    first, second = await until(lambda: two_turns(stack.bus, done))
    assert first.rollout == second.rollout == done.rollout
    assert second.parent == first.turn
    begun = stack.engine.prompts[0] + stack.engine.sampled[0]
    assert stack.engine.prompts[1][: len(begun)] == begun


async def test_mini_swe_agent_that_submits_too_early_is_a_failure(stack: Stack) -> None:
    done = await stack.run(example_task(), [SUBMIT])
    assert (done.reason, done.outcome) == ("failure", -1.0)


async def test_mini_swe_agent_asks_the_api_of_a_task_and_the_reward_is_kept(stack: Stack) -> None:
    task = {**plain(load_task(ROOT / "tasks" / "api-place-order")), "harness": "mini-swe-agent"}
    order = """curl -s -d '{"item": "desk-lamp", "count": 2}' "$(cat api.url)/orders" > receipt.txt"""
    done = await stack.run(task, [call(order), SUBMIT])
    assert (done.reason, done.outcome, done.rewards) == ("failure", -0.4, {"reward": 0.3}), done.detail
    signal = await outcome(stack.bus, done)
    assert (signal.value, signal.rewards) == (-0.4, {"reward": 0.3})


async def two_turns(bus: NatsBus, done: RolloutFinished) -> list[TurnRecorded] | None:
    stored = await bus.last("TURNS", f"turn.recorded.*.{done.policy}.{done.session}.*")
    turns = [found.event for found in stored if isinstance(found.event, TurnRecorded)]
    return sorted(turns, key=lambda turn: turn.started_at) if len(turns) == 2 else None


async def test_a_killed_orchestrator_ends_its_rollouts_at_the_next_start(tmp_path: Path) -> None:
    port = free_port()
    with running(nats_command(port, tmp_path / "nats"), port, tmp_path / "nats.log"):
        bus = await connect(BusSettings(url=f"nats://127.0.0.1:{port}"))
        await killed_and_started_again(bus, f"nats://127.0.0.1:{port}", tmp_path)
        await bus.close()


async def killed_and_started_again(bus: NatsBus, nats_url: str, folder: Path) -> None:
    settings = {**orchestrator_settings(nats_url, "http://127.0.0.1:9", folder / "work"), "ISOLATION": "none"}
    pid_file = folder / "pid"
    script = f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; sleep 600"
    task = {"name": "wait", "instruction": "wait", "command": script, "verify": {"command": "true"}}
    async with service("orchestrator", folder / "first.log", settings) as first:
        ref = await request(bus, "p", task, timeout_s=600)
        await until(lambda: written(pid_file))
        first.kill()
        await first.wait()
    assert alive(int(_text(pid_file)))
    async with service("orchestrator", folder / "second.log", settings):
        done = await finished(bus, ref)
        stopped_at = time.monotonic()
    assert time.monotonic() - stopped_at < 4, "an idle orchestrator stops at once"
    assert (done.reason, done.outcome) == ("infrastructure", None)
    assert not alive(int(_text(pid_file)))
    assert os.listdir(folder / "work" / "leases") == []


async def written(path: Path) -> bool | None:
    return alive(int(_text(path))) if _exists(path) else None


def _exists(path: Path) -> bool:
    return path.exists()


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
