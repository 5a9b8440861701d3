"""Fixtures of the proxy's tests: a small tokenizer, engines, and proxies over HTTP or as session indexes alone."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from drivetrain.common.bus import MemoryBus
from drivetrain.common.identity import new_id
from drivetrain.proxy.prompts.templates import Template
from tests.proxy_engine import StubEngine, stub_engine
from tests.proxy_replicas import StartReplica, starting
from tests.proxy_served import Proxy, served

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


StartProxy = Callable[..., Any]


@pytest.fixture
def start_proxy(model_folder: Path, valkey_url: str, tmp_path: Path) -> StartProxy:
    """Start a proxy in this process: `async with start_proxy([engine.url]) as proxy`; see `tests.proxy_served`."""
    shared = {"model": model_folder, "redis_url": valkey_url, "prefix": f"test-{new_id()}:"}

    def start(replicas: Sequence[str], name: str = "spool", **options: Any) -> Any:
        return served(replicas, spool=tmp_path / name, **(shared | options))

    return start


@pytest.fixture
async def proxy(start_proxy: StartProxy, engine: StubEngine) -> AsyncIterator[Proxy]:
    """A proxy with one replica: the stub engine."""
    async with start_proxy([engine.url]) as running:
        yield running


@pytest.fixture
async def start(valkey_url: str) -> AsyncIterator[StartReplica]:
    """Start another replica's session index: `start(bus)`; see `tests.proxy_replicas`."""
    async with starting(valkey_url) as start:
        yield start


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus()


@pytest.fixture
async def ask() -> AsyncIterator[Callable[..., Any]]:
    """Ask a proxy for a chat through OpenAI's SDK; connections stay open until the test ends."""
    async with AsyncExitStack() as stack:

        async def call(proxy: Any, messages: list[Any], path: str = "/v1", **options: Any) -> Any:
            client = AsyncOpenAI(base_url=proxy.url + path, api_key="any", max_retries=0)
            sdk = await stack.enter_async_context(client)
            return await sdk.chat.completions.create(model="default", messages=messages, **options)

        yield call
