"""A real mini-swe-agent works on a task through the real proxy; only the engine behind the proxy is scripted."""

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from drivetrain.cli.models import prepare_model
from drivetrain.common.bus import NatsBus, connect
from drivetrain.common.events import (
    RolloutFinished,
    RolloutRef,
    RolloutRequested,
    Signal,
    TurnRecorded,
)
from drivetrain.common.settings import BusSettings
from drivetrain.common.tasks import load_task, plain
from tests.sandboxes import BACKENDS
from tests.scripted_engine import ScriptedEngine, serving
from tests.servers import free_port
from tests.service_processes import event, service, until

ROOT = Path(__file__).parents[2]
MINI = ROOT / ".harness" / "data" / "harnesses" / "mini-swe-agent" / "bin"
TASK = ROOT / "services/orchestrator/examples/write-greeting.yaml"
SECRET = "a secret of this test alone"
LIMIT_S = 60.0

pytestmark = pytest.mark.skipif(
    not (MINI / "mini").exists(), reason="mini-swe-agent is not installed in .harness: `make test` does that"
)


def call(command: str) -> str:
    """A reply with one call of mini-swe-agent's only tool, as the model would write it."""
    arguments = json.dumps({"name": "bash", "arguments": {"command": command}})
    return f"I will run this.\n<tool_call>\n{arguments}\n</tool_call>"


SUBMIT = call("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")


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
