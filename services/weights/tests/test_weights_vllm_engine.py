"""The client of vLLM against a small imitation of its endpoints, for what a healthy vLLM would not do."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from drivetrain.common.store.checkpoints import FileEntry
from drivetrain.weights.engines.base import EngineError, Refused, Serving, Weights
from drivetrain.weights.engines.vllm import VllmEngine

WEIGHTS = Weights(7, Path("/checkpoints/main/00000007"), (FileEntry("model.safetensors", 12, "ab" * 32),))
LIFECYCLE = ["/pause", "/start_weight_update", "/update_weights", "/finish_weight_update", "/resume"]


class FakeVllm:
    """Answers like vLLM; `fails` maps a path to the answers that it gives first, as (status, message)."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.bodies: dict[str, Any] = {}
        self.queries: dict[str, dict[str, str]] = {}
        self.fails: dict[str, list[tuple[int, str]]] = {}
        self.answers: dict[str, dict[str, Any]] = {
            "/weight_info": {"weight_version": "6"},
            "/is_paused": {"is_paused": False},
        }
        self.updating = asyncio.Event()
        self.may_update = asyncio.Event()
        self.may_update.set()

    async def answer(self, request: web.Request) -> web.Response:
        path = request.path
        self.calls.append(path)
        text = await request.text()
        self.bodies[path] = json.loads(text) if text else None
        self.queries[path] = dict(request.query)
        if path == "/update_weights":
            self.updating.set()
            await self.may_update.wait()
        if self.fails.get(path):
            status, message = self.fails[path].pop(0)
            error = {"message": message, "type": "InternalServerError", "param": None, "code": status}
            return web.json_response({"error": error}, status=status)
        return web.json_response(self.answers.get(path, {"message": "done"}))


@pytest.fixture
async def vllm() -> AsyncIterator[tuple[FakeVllm, VllmEngine]]:
    fake = FakeVllm()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", fake.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    engine = VllmEngine(f"http://{host}:{port}/", "replica", call_s=5, load_s=5)
    yield fake, engine
    await engine.close()
    await runner.cleanup()


async def test_a_load_pauses_updates_labels_and_resumes(vllm: tuple[FakeVllm, VllmEngine]) -> None:
    fake, engine = vllm
    await engine.load(WEIGHTS)
    assert fake.calls == LIFECYCLE
    assert fake.queries["/pause"] == {"mode": "keep", "clear_cache": "true"}
    assert fake.bodies["/update_weights"] == {
        "update_info": {
            "folder": "/checkpoints/main/00000007",
            "files": {"model.safetensors": {"sha256": "ab" * 32, "size": 12}},
        }
    }
    assert fake.bodies["/finish_weight_update"] == {"weight_version": "7"}


async def test_a_refused_checkpoint_gives_the_replicas_reason_and_resumes(vllm: tuple[FakeVllm, VllmEngine]) -> None:
    fake, engine = vllm
    wrapped = (
        "Call to collective_rpc method failed: Worker failed with error 'tensor a.weight has shape (2, 2)', "
        "please check the stack trace above for the root cause"
    )
    fake.fails["/update_weights"] = [(500, wrapped)]
    with pytest.raises(Refused, match=r"replica refused version 7: .*tensor a\.weight has shape \(2, 2\)'$"):
        await engine.load(WEIGHTS)
    assert fake.calls[-1] == "/resume"
    assert "/finish_weight_update" not in fake.calls


async def test_an_engine_that_died_in_the_update_is_not_the_versions_fault(vllm: tuple[FakeVllm, VllmEngine]) -> None:
    fake, engine = vllm
    fake.fails["/update_weights"] = [(500, "EngineCore encountered an issue")]
    fake.fails["/health"] = [(503, "engine dead")]
    with pytest.raises(EngineError, match="engine dead"):
        await engine.load(WEIGHTS)
    assert fake.calls[-1] == "/resume"


@pytest.mark.parametrize("path", ["/pause", "/finish_weight_update"])
async def test_a_failing_step_is_told_and_the_replica_resumes(vllm: tuple[FakeVllm, VllmEngine], path: str) -> None:
    fake, engine = vllm
    fake.fails[path] = [(500, "boom")]
    fake.fails["/update_weight_version"] = [(500, "boom")]
    with pytest.raises(EngineError, match="500: boom"):
        await engine.load(WEIGHTS)
    assert fake.calls[-1] == "/resume"


async def test_new_weights_get_their_label_even_if_the_update_cannot_be_closed(
    vllm: tuple[FakeVllm, VllmEngine],
) -> None:
    fake, engine = vllm
    fake.fails["/finish_weight_update"] = [(500, "boom")]
    await engine.load(WEIGHTS)
    assert fake.bodies["/update_weight_version"] == {"new_version": "7"}


async def test_an_update_left_open_by_an_earlier_life_is_closed_first(vllm: tuple[FakeVllm, VllmEngine]) -> None:
    fake, engine = vllm
    fake.fails["/start_weight_update"] = [(500, "start_weight_update called while an update is already active")]
    await engine.load(WEIGHTS)
    assert fake.calls == [LIFECYCLE[0], LIFECYCLE[1], "/finish_weight_update", *LIFECYCLE[1:]]


async def test_a_cancelled_load_is_ended_properly(vllm: tuple[FakeVllm, VllmEngine]) -> None:
    fake, engine = vllm
    fake.may_update.clear()
    load = asyncio.create_task(engine.load(WEIGHTS))
    await fake.updating.wait()
    load.cancel()
    await asyncio.sleep(0)
    fake.may_update.set()
    with pytest.raises(asyncio.CancelledError):
        await load
    assert fake.calls == LIFECYCLE


@pytest.mark.parametrize(("label", "version"), [("6", 6), ("0", 0), ("default", None), ("v2", None), ("-1", None)])
async def test_only_whole_numbers_are_versions(
    vllm: tuple[FakeVllm, VllmEngine], label: str, version: int | None
) -> None:
    fake, engine = vllm
    fake.answers["/weight_info"] = {"weight_version": label}
    assert await engine.serving() == Serving(version, paused=False)


async def test_the_probe_is_one_request_and_its_own_tokens_logprobs(vllm: tuple[FakeVllm, VllmEngine]) -> None:
    fake, engine = vllm
    fake.answers["/inference/v1/generate"] = {
        "prompt_logprobs": [None, {"6": {"logprob": -1.5, "rank": 1}}, {"7": {"logprob": -0.25, "rank": 3}}]
    }
    assert await engine.logprobs([5, 6, 7]) == [-1.5, -0.25]
    assert fake.bodies["/inference/v1/generate"] == {
        "token_ids": [5, 6, 7],
        "sampling_params": {"max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0},
    }


@pytest.mark.parametrize("answer", [None, [None], [None, {"9": {"logprob": -1.0}}], [None, {"6": {}}]])
async def test_an_answer_without_the_probes_logprobs_is_an_error(
    vllm: tuple[FakeVllm, VllmEngine], answer: object
) -> None:
    fake, engine = vllm
    fake.answers["/inference/v1/generate"] = {"prompt_logprobs": answer}
    with pytest.raises(EngineError, match="without logprobs"):
        await engine.logprobs([5, 6])


async def test_a_replica_that_is_not_there_is_named_with_the_call() -> None:
    engine = VllmEngine("http://127.0.0.1:1", "gone", call_s=5, load_s=5)
    with pytest.raises(EngineError, match="gone cannot be reached for GET /weight_info"):
        await engine.serving()
    await engine.close()


async def test_a_replica_that_does_not_answer_in_time_is_an_error(vllm: tuple[FakeVllm, VllmEngine]) -> None:
    fake, engine = vllm
    fake.may_update.clear()
    impatient = VllmEngine(engine._url, "slow", call_s=5, load_s=0.05)
    with pytest.raises(EngineError, match=r"slow did not answer POST /update_weights within 0\.05 s"):
        await impatient.load(WEIGHTS)
    assert fake.calls[-1] == "/resume"
    fake.may_update.set()
    await impatient.close()
