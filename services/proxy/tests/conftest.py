"""Fixtures of the proxy's tests: a small tokenizer, an engine that speaks vLLM's generate protocol, and the app."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from redis.asyncio import Redis
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from drivetrain.common.bus import MemoryBus
from drivetrain.common.events import Event, TurnFollowed, TurnRecorded
from drivetrain.common.identity import new_id
from drivetrain.common.telemetry.admin import Server, listen, uvicorn_config
from drivetrain.proxy.access.bounds import Bounds
from drivetrain.proxy.access.door import Door
from drivetrain.proxy.access.keys import Keys
from drivetrain.proxy.access.rates import Rates
from drivetrain.proxy.access.redaction import Reader, Redaction
from drivetrain.proxy.api.endpoints import Endpoints
from drivetrain.proxy.api.server import build_app
from drivetrain.proxy.engines.vllm import Vllm
from drivetrain.proxy.gateway import Gateway
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.prompts.rendering import Rendering
from drivetrain.proxy.prompts.templates import Template
from drivetrain.proxy.recording.publisher import Publisher
from drivetrain.proxy.recording.recorder import Recorder
from drivetrain.proxy.recording.spool import Spool
from drivetrain.proxy.routing.admission import Limits
from drivetrain.proxy.routing.pool import Pool
from drivetrain.proxy.sessions import Closer, History, Index, Rebuilder, Sessions, connect

SECRET = b"a secret of the tests"
CHATML = """{%- if tools %}<|im_start|>system
Tools: {{ tools | tojson }}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content | trim }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{{ call.function | tojson }}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
CORPUS = [
    "The capital of France is Paris. user assistant system tool",
    '<think> </think> <tool_call> \n {}[]":, 😀 é ü',
]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder without weights: a byte-level BPE tokenizer, and a ChatML template with tools."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, special_tokens=special)
    backend.train_from_iterator(CORPUS * 20, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", bos_token="<|im_start|>", unk_token="<|endoftext|>"
    )
    tokenizer.chat_template = CHATML
    folder = tmp_path_factory.mktemp("model")
    tokenizer.save_pretrained(str(folder))
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 2000, "model_type": "llama"}))
    return folder


@pytest.fixture(scope="session")
def template(model_folder: Path) -> Template:
    return Template(str(model_folder))


def tokens(template: Template, text: str) -> list[int]:
    """Token ids of a text, with the template's special tokens recognised."""
    return list(template.tokenizer.encode(text, add_special_tokens=False))


@pytest.fixture(scope="session")
def encode(template: Template) -> Callable[[str], list[int]]:
    """Text to the ids that a model would sample for it, end token included."""
    return lambda text: tokens(template, text + "<|im_end|>")


@dataclass
class Script:
    """What the stub engine does with one request. `hold` is waited for after `hold_after` tokens; `pace` seconds lie
    between tokens; `raw` is written after them."""

    ids: list[int]
    finish: str = "stop"
    versions: list[tuple[str, int, int]] | None = None
    hold: asyncio.Event | None = None
    hold_after: int = 1
    die_after: int | None = None
    status: int = 200
    reset: bool = False
    pace: float = 0.0
    raw: bytes | None = None


def logprob(token: int) -> float:
    """The stub engine's logprob of a token: exact in float32, different for neighbours."""
    return -0.25 * (1 + token % 8)


@dataclass
class StubEngine:
    """An HTTP server that speaks vLLM's generate protocol and samples what the test says: `scripts` one after another,
    then `always`."""

    url: str = ""
    healthy: bool = True
    version: str = "7"
    scripts: list[Script] = field(default_factory=list)
    always: Script | None = None
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

    async def generate(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        self.asked.set()
        script = self.always if self.always and not self.scripts else self.scripts.pop(0)
        if script.status != 200:
            return web.json_response({"error": {"message": "the stub refuses"}}, status=script.status)
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


@pytest.fixture
async def engine() -> AsyncIterator[StubEngine]:
    async with stub_engine() as running:
        yield running


@pytest.fixture
async def engines(encode: Callable[[str], list[int]]) -> AsyncIterator[list[StubEngine]]:
    """Four replicas that always answer the same."""
    async with AsyncExitStack() as stack:
        running = [await stack.enter_async_context(stub_engine()) for _ in range(4)]
        for engine in running:
            engine.say_always(encode("Paris."))
        yield running


@dataclass
class Proxy:
    """A proxy that listens on loopback, and everything it tells the bus."""

    url: str
    bus: MemoryBus
    publisher: Publisher
    recorder: Recorder
    sessions: Sessions
    rendering: Rendering
    redis: Redis
    index: Index
    rebuilder: Rebuilder
    closer: Closer

    async def events(self) -> list[Event]:
        """All events of turns and signals so far, in order, after the spool is empty."""
        while self.recorder.spool.backlog_bytes:
            self.publisher.idle.clear()
            self.recorder.written.set()
            await self.publisher.idle.wait()
        turns = await self.bus.last("TURNS", "turn.>")
        return [stored.event for stored in [*turns, *await self.bus.last("SIGNALS", "signal.>")]]

    async def next_turn(self) -> TurnRecorded:
        """The first recorded turn, as soon as it is on the bus."""
        async with asyncio.timeout(5):
            while not (turns := await self.recorded()):
                self.bus.changed.clear()
                await self.bus.changed.wait()
        return turns[0]

    async def recorded(self) -> list[TurnRecorded]:
        return [event for event in await self.events() if isinstance(event, TurnRecorded)]

    async def followed(self) -> list[TurnFollowed]:
        return [event for event in await self.events() if isinstance(event, TurnFollowed)]


StartProxy = Callable[..., Any]


@pytest.fixture
def start_proxy(model_folder: Path, valkey_url: str, tmp_path: Path) -> StartProxy:
    """Start a proxy in this process: `async with start_proxy([engine.url]) as proxy`."""
    keys = f"test-{new_id()}:"

    @asynccontextmanager
    async def start(replicas: Sequence[str], name: str = "spool", **options: Any) -> AsyncIterator[Proxy]:
        bus = options.pop("bus", None) or MemoryBus()
        template = Template(str(options.pop("model", model_folder)))
        rendering = Rendering(template, options.pop("thread_chars", 10_000))
        served = {"default": replicas} | options.pop("policies", {})
        readers = dict.fromkeys(served, Reader(rendering.template.tokenizer.backend_tokenizer))
        recorder = Recorder(Spool(tmp_path / name), Redaction(options.pop("patterns", {}), readers))
        redis = connect(options.pop("redis_url", valkey_url), 0.5)
        index, idle_s = Index(redis, keep_s=600, prefix=keys), options.pop("idle_s", 600)
        sessions = Sessions(index, History(bus), cache_bytes=options.pop("cache_bytes", 1 << 24), idle_s=idle_s)
        vllm = Vllm(connect_s=2, stall_s=options.pop("stall_s", 20))
        limits = Limits(**options.pop("limits", {}))
        pools = {name: Pool(name, urls, vllm, bus, limits, probe_s=0.1) for name, urls in served.items()}
        await asyncio.gather(*(pool.look() for pool in pools.values()))
        probing = [asyncio.create_task(pool.run(lambda: False)) for pool in pools.values()]
        context = options.pop("context_tokens", 2000)
        gateways = {
            name: Gateway(
                engine=pool.engine,
                rendering=rendering,
                sessions=sessions,
                recorder=recorder,
                secret=SECRET,
                context_tokens=lambda: context,
            )
            for name, pool in pools.items()
        }
        identifier = Identifier(SECRET, "train")
        bounds = Bounds(**{"body_bytes": 100_000} | options.pop("bounds", {}))
        door = Door(Keys(SECRET, options.pop("keys", None)), Rates(redis, prefix=keys), bounds)
        endpoints = Endpoints(gateways, door, identifier, sessions, recorder)
        publisher = Publisher(recorder, bus, retry_s=(0.01, 0.05))
        listener = listen("127.0.0.1", 0)
        server = Server(uvicorn_config(build_app(endpoints)))
        tasks = [asyncio.create_task(server.serve_on(listener)), asyncio.create_task(publisher.run())]
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            rebuilder = Rebuilder(sessions, index, bus, idle_s=idle_s, keep_s=600)
            closer = Closer(sessions, index, recorder.record, every_s=1)
            yield Proxy(url, bus, publisher, recorder, sessions, rendering, redis, index, rebuilder, closer)
        finally:
            server.should_exit = True
            await tasks[0]
            tasks[1].cancel()
            await asyncio.wait(tasks)
            for task in probing:
                task.cancel()
            await asyncio.wait(probing)
            await vllm.close()
            await redis.aclose()
            rendering.close()
            recorder.spool.close()

    return start


@pytest.fixture
async def proxy(start_proxy: StartProxy, engine: StubEngine) -> AsyncIterator[Proxy]:
    """A proxy with one replica: the stub engine."""
    async with start_proxy([engine.url]) as running:
        yield running
