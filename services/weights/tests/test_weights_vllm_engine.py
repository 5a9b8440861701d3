"""The client of vLLM against a small imitation of its endpoints, for what a healthy vLLM would not do."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from drivetrain.common.store.checkpoints import FileEntry
from drivetrain.weights.engines.base import EngineError, Refused, Serving, Staged, Weights
from drivetrain.weights.engines.vllm import VllmEngine
from drivetrain.weights.engines.words import adapters_in_use

WEIGHTS = Weights(7, Path("/checkpoints/main/00000007"), (FileEntry("model.safetensors", 12, "ab" * 32),))
STAGE, LOADED = "drivetrain_stage", "drivetrain_loaded"
LIFECYCLE = ["/pause", "/start_weight_update", "/update_weights", "/finish_weight_update", "/resume"]
LOAD = [STAGE, *LIFECYCLE, LOADED]
DIGESTS = {"model.safetensors": "ab" * 32}
READY = {"state": "ready", "folder": "/somewhere", "digests": DIGESTS, "fetched_bytes": 5}
ADAPTER = Weights(7, Path("/unused"), WEIGHTS.files, "adapter", policy="main")


class FakeVllm:
    """Answers like vLLM; `fails` maps a path to the answers that it gives first, as (status, message)."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.bodies: dict[str, Any] = {}
        self.queries: dict[str, dict[str, str]] = {}
        self.fails: dict[str, list[tuple[int, str]]] = {}
        self.answers: dict[str, Any] = {
            "/weight_info": {"weight_version": "6"},
            "/is_paused": {"is_paused": False},
            "/v1/models": {"data": [{"id": "main"}]},
            STAGE: {"results": [READY]},
            LOADED: {"results": [{"digests": DIGESTS}]},
        }
        self.absent: set[str] = set()
        self.updating = asyncio.Event()
        self.may_update = asyncio.Event()
        self.may_update.set()

    async def answer(self, request: web.Request) -> web.Response:
        path = request.path
        text = await request.text()
        if path == "/collective_rpc":
            path = json.loads(text)["method"]
        self.calls.append(path)
        self.bodies[path] = json.loads(text) if text else None
        self.queries[path] = dict(request.query)
        if path == "/update_weights":
            self.updating.set()
            await self.may_update.wait()
        if path in self.absent:
            return web.json_response({"detail": "Not Found"}, status=404)
        if self.fails.get(path):
            status, message = self.fails[path].pop(0)
            error = {"message": message, "type": "InternalServerError", "param": None, "code": status}
            return web.json_response({"error": error}, status=status)
        answer = self.answers.get(path, {"message": "done"})
        return web.Response(text=answer) if isinstance(answer, str) else web.json_response(answer)


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
    assert fake.calls == LOAD
    assert fake.queries["/pause"] == {"mode": "keep", "clear_cache": "true"}
    assert fake.bodies["/update_weights"] == {
        "update_info": {
            "folder": "/checkpoints/main/00000007",
            "files": {"model.safetensors": {"sha256": "ab" * 32, "size": 12}},
            "kind": "full",
        }
    }
    assert fake.bodies[STAGE]["kwargs"] == fake.bodies["/update_weights"]
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
    assert fake.calls == [STAGE, LIFECYCLE[0], LIFECYCLE[1], "/finish_weight_update", *LIFECYCLE[1:], LOADED]


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
    assert fake.calls == LOAD


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
    impatient = VllmEngine(engine.url, "slow", call_s=5, load_s=0.05)
    with pytest.raises(EngineError, match=r"slow did not answer POST /update_weights within 0\.05 s"):
        await impatient.load(WEIGHTS)
    assert fake.calls[-1] == "/resume"
    fake.may_update.set()
    await impatient.close()


async def test_a_checkpoint_is_waited_for_until_every_worker_has_read_it(vllm: tuple[FakeVllm, VllmEngine]) -> None:
    fake, engine = vllm
    fake.answers[STAGE] = {"results": [READY, {"state": "staging"}]}
    fake.answers["drivetrain_staged"] = {"results": [READY, READY]}
    assert await engine.stage(WEIGHTS) == Staged("/somewhere", 10)
    assert fake.calls == [STAGE, "drivetrain_staged"]


@pytest.mark.parametrize(
    ("state", "error", "why"),
    [
        ({"state": "refused", "reason": "tensor a has NaN"}, Refused, "replica refused version 7: tensor a has NaN"),
        ({"state": "failed", "reason": "the store is away"}, EngineError, "could not stage version 7: the store is"),
        ({**READY, "digests": {"model.safetensors": "cd" * 32}}, Refused, "has other bytes for version 7"),
    ],
)
async def test_what_cannot_be_staged_leaves_the_replica_alone(
    vllm: tuple[FakeVllm, VllmEngine], state: dict[str, object], error: type[Exception], why: str
) -> None:
    fake, engine = vllm
    fake.answers[STAGE] = {"results": [state]}
    with pytest.raises(error, match=why):
        await engine.load(WEIGHTS)
    assert fake.calls == [STAGE]


async def test_other_bytes_in_the_model_than_the_manifest_says_are_told(vllm: tuple[FakeVllm, VllmEngine]) -> None:
    fake, engine = vllm
    fake.answers[LOADED] = {"results": [{"digests": {"model.safetensors": "cd" * 32}}]}
    with pytest.raises(Refused, match="replica has other bytes for version 7 than its manifest says"):
        await engine.load(WEIGHTS)


async def test_an_adapter_is_loaded_under_a_name_of_its_own_without_a_pause(vllm: tuple[FakeVllm, VllmEngine]) -> None:
    fake, engine = vllm
    fake.answers["/v1/load_lora_adapter"] = "Success: LoRA adapter 'main@7' added successfully."
    await engine.load(ADAPTER)
    assert fake.calls == [STAGE, "/v1/load_lora_adapter"]
    assert fake.bodies["/v1/load_lora_adapter"] == {"lora_name": "main@7", "lora_path": "/somewhere"}


async def test_an_adapter_that_is_there_already_counts_as_loaded(vllm: tuple[FakeVllm, VllmEngine]) -> None:
    fake, engine = vllm
    fake.fails["/v1/load_lora_adapter"] = [(400, "The lora adapter 'main@7' has already been loaded.")]
    await engine.load(ADAPTER)


async def test_a_server_that_takes_no_adapters_is_told_its_options(vllm: tuple[FakeVllm, VllmEngine]) -> None:
    fake, engine = vllm
    fake.absent.add("/v1/load_lora_adapter")
    with pytest.raises(EngineError, match="start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"):
        await engine.load(ADAPTER)


async def test_the_adapters_that_requests_can_ask_for_are_those_with_a_version(
    vllm: tuple[FakeVllm, VllmEngine],
) -> None:
    fake, engine = vllm
    fake.answers["/v1/models"] = {"data": [{"id": "main"}, {"id": "main@7"}, {"id": "other@2"}]}
    assert await engine.serving() == Serving(6, paused=False, adapters=frozenset({"main@7", "other@2"}))


METRICS = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} RUNNING
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0"} 0.0
# TYPE vllm:lora_requests_info gauge
vllm:lora_requests_info{max_lora="4",running_lora_adapters="main@5",waiting_lora_adapters=""} 1.7e+09
vllm:lora_requests_info{max_lora="4",running_lora_adapters="main@6,a@1",waiting_lora_adapters="b@2"} 1.8e+09
"""


@pytest.mark.parametrize(("running", "busy"), [("3.0", {"main@6", "a@1", "b@2"}), ("0.0", set())])
def test_the_newest_word_of_the_metrics_says_which_adapters_are_in_use(running: str, busy: set[str]) -> None:
    assert adapters_in_use(METRICS.replace("RUNNING", running)) == busy
