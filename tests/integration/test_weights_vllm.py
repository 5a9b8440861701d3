"""Versions rolled into a real vLLM while it streams: nothing is cut, every token knows its version, bad ones held."""

import asyncio
import json
import math
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from drivetrain.common.bus.memory import MemoryBus
from drivetrain.common.events import Event, WeightsCandidate, WeightsHeld, WeightsLoaded, WeightsPromoted
from drivetrain.common.store.checkpoints import CheckpointStore, Manifest, Probe, file_entry
from drivetrain.weights.engines.base import Refused, Weights
from drivetrain.weights.engines.vllm import VllmEngine
from drivetrain.weights.fleet import Fleet
from drivetrain.weights.replica import Replica
from drivetrain.weights.service import WeightsService
from drivetrain.weights.settings import TimeoutSettings
from drivetrain.weights.source import Source

pytestmark = pytest.mark.vllm

POLICY = "weights-test"
PROMPT = [1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198]
PROBE_IDS = [*PROMPT, 504, 3575, 282, 4649, 314, 7042, 30]

Tensors = dict[str, torch.Tensor]


class Server(Protocol):
    """The `vllm_server` fixture."""

    url: str
    model: Path


class Reply:
    """One streamed reply, as the engine sent it."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.finish: str | None = None
        self.spans: list[tuple[str, int, int]] = []
        self.first = asyncio.Event()

    def add(self, choice: dict[str, Any]) -> None:
        self.tokens += choice["token_ids"]
        self.logprobs += [entry["logprob"] for entry in choice["logprobs"]["content"]]
        self.finish = choice["finish_reason"] or self.finish
        self.spans = [(s["version"], s["start"], s["end"]) for s in choice["weight_versions"] or []]
        if len(self.tokens) >= 3:
            self.first.set()


class Rig:
    """The real replica, a store and the service over an in-memory bus."""

    def __init__(self, server: Server, folder: Path, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session
        self.bus = MemoryBus()
        self.store = CheckpointStore(folder)
        self.engine = VllmEngine(server.url, "replica", call_s=120, load_s=120)
        self.source = Source(self.store, POLICY)
        replica = Replica(self.engine, 1e-3, TimeoutSettings())
        self.service = WeightsService(self.bus, self.source, Fleet(self.bus, POLICY, [replica], time.time), 1.0)

    def write(self, version: int, change: Callable[[Tensors], None], probed: bool = True) -> Manifest:
        """A checkpoint: the base model's tensors after `change`, with the probe as torch computes it, or with the
        base model's when the changed one cannot be computed."""
        tensors = load_file(self.server.model / "model.safetensors")
        base = dict(tensors)
        change(tensors)
        with self.store.writing(POLICY, version, 0) as folder:
            save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
            manifest = Manifest(
                policy=POLICY,
                version=version,
                parent=0,
                base=str(self.server.model),
                dtype="float32",
                step=version,
                files=[file_entry(folder / "model.safetensors")],
                probe=Probe(PROBE_IDS, torch_logprobs(self.server.model, tensors if probed else base, PROBE_IDS)),
                created_at=0.0,
            )
            self.store.commit(folder, manifest)
        return manifest

    async def announce(self, manifest: Manifest) -> None:
        event = WeightsCandidate(
            policy=POLICY, version=manifest.version, parent=0, digest=manifest.digest(), step=1, at=0.0
        )
        await self.bus.publish(event)
        async with self.bus.consume(self.service.consumer) as subscription:
            (delivery,) = await subscription.fetch(1, 1)
            await self.service.on_candidate(delivery)
            await delivery.ack()

    async def published(self, kind: str) -> list[Event]:
        return [stored.event for stored in await self.bus.last("WEIGHTS", f"weights.{kind}.{POLICY}.>")]

    async def stream(self, reply: Reply, first_token: int, count: int) -> Reply:
        sampling = {"max_tokens": count, "ignore_eos": True, "temperature": 1.0, "logprobs": 0}
        body = {"token_ids": [*PROMPT, first_token], "stream": True, "sampling_params": sampling}
        async with self.session.post(f"{self.server.url}/inference/v1/generate", json=body) as response:
            assert response.status == 200
            async for line in response.content:
                if line.startswith(b"data: {"):
                    for choice in json.loads(line.removeprefix(b"data: "))["choices"]:
                        reply.add(choice)
        return reply

    async def label(self) -> int | None:
        return (await self.engine.serving()).version


@pytest.fixture
async def rig(vllm_server: Server, tmp_path: Path) -> AsyncIterator[Rig]:
    async with aiohttp.ClientSession() as session:
        made = Rig(vllm_server, tmp_path, session)
        await made.service.recover()
        await made.service.reconcile()
        yield made
        base = tuple(file_entry(file) for file in vllm_server.model.glob("*.safetensors"))
        await made.engine.load(Weights(0, vllm_server.model, base))
        await made.engine.close()


def torch_logprobs(model: Path, tensors: Tensors, token_ids: list[int]) -> list[float]:
    """log p(token t | tokens < t) in fp32, computed by transformers."""
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    network.load_state_dict(tensors, strict=False)
    network.tie_weights()
    ids = torch.tensor(token_ids)
    with torch.no_grad():
        logprobs = network(ids[None]).logits[0].log_softmax(-1)
    return [float(x) for x in logprobs[:-1].gather(1, ids[1:, None])[:, 0]]


def perturb(tensors: Tensors) -> None:
    """Change every matrix a little, the embedding (which is the head as well) included."""
    generator = torch.Generator().manual_seed(7)
    for name, tensor in tensors.items():
        if tensor.ndim == 2:
            tensors[name] = tensor * (1 + 0.02 * torch.randn(tensor.shape, generator=generator))


def poison(tensors: Tensors) -> None:
    name = "model.layers.3.mlp.up_proj.weight"
    tensors[name] = tensors[name].clone()
    tensors[name][1, 2] = math.nan


def cut(tensors: Tensors) -> None:
    tensors["model.norm.weight"] = tensors["model.norm.weight"][:-1].clone()


async def test_a_new_version_changes_running_replies_without_cutting_them(rig: Rig) -> None:
    assert await rig.label() == 0
    manifest = await asyncio.to_thread(rig.write, 1, perturb)
    replies = [Reply() for _ in range(4)]
    streams = [asyncio.create_task(rig.stream(reply, 30 + i, 120)) for i, reply in enumerate(replies)]
    await asyncio.gather(*(reply.first.wait() for reply in replies))
    await rig.announce(manifest)
    await asyncio.gather(*streams)

    for reply in replies:
        assert (len(reply.tokens), reply.finish) == (120, "length")
        (old, start, boundary), (new, again, end) = reply.spans
        assert (old, start, new, end) == ("0", 0, "1", 120)
        assert boundary == again
    # Before the boundary the old weights sampled, from it on the new ones, each token as torch computes it
    reply, tensors = replies[0], load_file(rig.store.path(POLICY, 1) / "model.safetensors")
    ids, boundary = [*PROMPT, 30, *reply.tokens], reply.spans[0][2]
    base = load_file(rig.server.model / "model.safetensors")
    for part, weights in ((slice(0, boundary), base), (slice(boundary, None), tensors)):
        wanted = torch_logprobs(rig.server.model, weights, ids)[len(PROMPT) :]
        assert reply.logprobs[part] == pytest.approx(wanted[part], abs=2e-3)


async def test_a_promotion_is_proved_and_published(rig: Rig) -> None:
    await rig.announce(await asyncio.to_thread(rig.write, 1, perturb))
    (loaded,) = await rig.published("loaded")
    assert isinstance(loaded, WeightsLoaded)
    assert loaded.probe_gap is not None
    assert loaded.probe_gap < 1e-3
    (promoted,) = await rig.published("promoted")
    assert isinstance(promoted, WeightsPromoted)
    assert (promoted.version, promoted.replicas, await rig.label()) == (1, ["replica"], 1)


@pytest.mark.parametrize(
    ("change", "reason"), [(poison, "NaN or infinite"), (cut, r"model.norm.weight has shape \(575,\)")]
)
async def test_a_version_that_cannot_be_served_is_held_and_the_replica_serves_on(
    rig: Rig, change: Callable[[Tensors], None], reason: str
) -> None:
    manifest = await asyncio.to_thread(rig.write, 1, change, probed=False)
    reply = Reply()
    stream = asyncio.create_task(rig.stream(reply, 30, 60))
    await reply.first.wait()
    await rig.announce(manifest)
    await stream
    (held,) = await rig.published("held")
    assert isinstance(held, WeightsHeld)
    assert re.search(reason, held.reason)
    assert (len(reply.tokens), reply.spans) == (60, [("0", 0, 60)])
    assert await rig.label() == 0


async def test_files_that_are_missing_or_changed_are_refused_by_the_replica_itself(rig: Rig) -> None:
    manifest = await asyncio.to_thread(rig.write, 1, perturb)
    (good,), folder = manifest.files, rig.store.path(POLICY, 1)
    changed = type(good)(good.name, good.size, "0" * 64)
    with pytest.raises(Refused, match="has sha256"):
        await rig.engine.load(Weights(1, folder, (changed,)))
    with pytest.raises(Refused, match="is missing"):
        await rig.engine.load(Weights(1, folder / "nowhere", (good,)))
    assert await rig.label() == 0
    assert (await rig.stream(Reply(), 30, 5)).finish == "length"
