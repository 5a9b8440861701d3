"""Images from the harness to the real vLLM: both dialects, prompts as vLLM itself makes them, images that are none."""

import asyncio
import base64
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from drivetrain.cli.stack import vllm
from drivetrain.common.bus import connect
from drivetrain.common.events import TurnRecorded
from drivetrain.common.settings import BusSettings
from drivetrain.common.tokens import unpack_ids
from tests.servers import free_port, running, wait_until
from tests.vision import CONTEXT, TOKENS, build, data_url, png

pytestmark = pytest.mark.vllm
ROOT = Path(__file__).parents[2]
POLICY = "seeing"
FLAGS = (f"--max-model-len={CONTEXT}", "--max-num-seqs=4", "--kv-cache-memory-bytes=200M", "--skip-mm-profiling")
RED, BLUE = data_url(png("red")), data_url(png("blue"))


@dataclass(frozen=True)
class Seeing:
    """A proxy and the vLLM behind it."""

    proxy: str
    vllm: str
    bus: str

    def chat(self, messages: list[Any], **more: Any) -> httpx.Response:
        body = {"model": POLICY, "messages": messages, "max_tokens": 4, "temperature": 0} | more
        return httpx.post(f"{self.proxy}/v1/chat/completions", json=body, timeout=60)

    def rendered(self, messages: list[Any]) -> list[int]:
        """The prompt as vLLM makes it of the same messages."""
        body = {"model": POLICY, "messages": messages}
        return list(httpx.post(f"{self.vllm}/v1/chat/completions/render", json=body, timeout=60).json()["token_ids"])


@pytest.fixture(scope="module")
def seeing(nats_url: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeing]:
    folder = tmp_path_factory.mktemp("seeing")
    model = build(ROOT / ".cache" / "tokenizers" / "qwen2_5", folder / "model")
    ports = [free_port() for _ in range(3)]
    command = vllm.command(vllm.find_python(), str(model), POLICY, ports[0], 0, FLAGS)
    engine = f"http://127.0.0.1:{ports[0]}"
    settings = {
        "POLICY": POLICY,
        "MODEL": str(model),
        "SECRET": "a secret of the tests",
        "LISTEN__PORT": str(ports[1]),
        "ADMIN__PORT": str(ports[2]),
        "ENGINE__REPLICAS": engine,
        "SESSIONS__REDIS_URL": f"{valkey_url}",
        "SPOOL__FOLDER": str(folder / "spool"),
        "BUS__URL": nats_url,
    }
    environment = os.environ | {f"DRIVETRAIN_PROXY_{name}": value for name, value in settings.items()}
    served = running(list(command), ports[0], folder / "vllm", os.environ | vllm.environment(str(model)), timeout_s=300)
    with served, running([sys.executable, "-m", "drivetrain.proxy"], ports[1], folder / "proxy", environment, 100):
        ready = f"http://127.0.0.1:{ports[2]}/readyz"
        wait_until(lambda: httpx.get(ready).status_code == 200, 60, "the proxy is ready")
        yield Seeing(f"http://127.0.0.1:{ports[1]}", engine, nats_url)


def user(*parts: str) -> dict[str, Any]:
    """What a user says and shows."""
    shown = [
        {"type": "image_url", "image_url": {"url": part}}
        if part.startswith("data:")
        else {"type": "text", "text": part}
        for part in parts
    ]
    return {"role": "user", "content": shown}


def turns(bus_url: str) -> list[TurnRecorded]:
    async def read() -> list[TurnRecorded]:
        bus = await connect(BusSettings(url=bus_url))
        try:
            events = [stored.event for stored in await bus.last("TURNS", f"turn.recorded.*.{POLICY}.>")]
        finally:
            await bus.close()
        return sorted((e for e in events if isinstance(e, TurnRecorded)), key=lambda turn: turn.started_at)

    return asyncio.run(read())


@pytest.mark.parametrize(
    "messages",
    [
        [user("What is ", RED, "?")],
        [{"role": "system", "content": "Look."}, user(RED, BLUE, " which?")],
        [user(RED), {"role": "assistant", "content": "Red."}, user("And ", BLUE)],
        [{"role": "user", "content": "No image at all."}],
    ],
)
def test_the_engine_reads_the_prompt_that_vllm_itself_makes(seeing: Seeing, messages: list[Any]) -> None:
    answer = seeing.chat(messages, return_token_ids=True)
    assert answer.status_code == 200, answer.text
    assert answer.json()["prompt_token_ids"] == seeing.rendered(messages)
    assert answer.json()["usage"]["prompt_tokens"] == len(seeing.rendered(messages))


def test_the_model_sees_the_image(seeing: Seeing) -> None:
    def logprobs(url: str, images: str) -> list[float]:
        body = {"model": POLICY, "messages": [user("What is ", images, "?")], "max_tokens": 4, "temperature": 0}
        answer = httpx.post(f"{url}/v1/chat/completions", json=body | {"logprobs": True}, timeout=60).json()
        return [row["logprob"] for row in answer["choices"][0]["logprobs"]["content"]]

    red, blue = logprobs(seeing.proxy, RED), logprobs(seeing.proxy, BLUE)
    assert red == pytest.approx(logprobs(seeing.vllm, RED), abs=1e-5)
    assert blue == pytest.approx(logprobs(seeing.vllm, BLUE), abs=1e-5)
    assert red != pytest.approx(blue, abs=1e-3)


def test_a_conversation_in_anthropics_dialect_goes_on_from_its_recorded_tokens(seeing: Seeing) -> None:
    def shown(image: bytes) -> dict[str, Any]:
        source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(image).decode()}
        return {"role": "user", "content": [{"type": "image", "source": source}, {"type": "text", "text": "?"}]}

    def ask(messages: list[Any]) -> dict[str, Any]:
        body = {"model": POLICY, "max_tokens": 4, "messages": messages}
        answer = httpx.post(f"{seeing.proxy}/v1/messages", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    before = len(turns(seeing.bus))
    first = ask([shown(png("red"))])
    echo = {"role": "assistant", "content": first["content"]}
    second = ask([shown(png("red")), echo, shown(png("blue"))])
    wait_until(lambda: len(turns(seeing.bus)) == before + 2, 20, "the turns are on the bus")
    one, two = turns(seeing.bus)[-2:]
    assert two.parent == one.turn
    assert [turn.inexact_reason.split("; ")[0] for turn in (one, two)] == ["images"] * 2
    assert one.messages[0]["content"][0] == {"type": "image_url", "image_url": {"url": RED}}
    recorded = [unpack_ids(part) for part in (one.prompt_ids, one.response_ids, two.prompt_ids)]
    # The prompt has one token for each of the two images; the engine reads more.
    assert second["usage"]["input_tokens"] == sum(map(len, recorded)) + 2 * (TOKENS - 1)


def bomb() -> bytes:
    """A small file that claims to be 3,600 million pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.mark.parametrize("image", [b"no image", png("red", (400, 300))[:400], bomb()], ids=["text", "half", "bomb"])
def test_images_that_are_none_are_refused_in_the_engines_words(seeing: Seeing, image: bytes) -> None:
    answer = seeing.chat([user("What is ", data_url(image))])
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "engine_refused")
    assert "image" in answer.json()["error"]["message"].lower()
    # The replica is as well as before.
    assert seeing.chat([user("Hi")]).status_code == 200


def test_images_that_leave_no_room_are_told_as_a_prompt_that_is_too_long(seeing: Seeing) -> None:
    many = [RED] * (CONTEXT // TOKENS + 1)
    answer = seeing.chat([user("All of these: ", *many)])
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert f"maximum context length is {CONTEXT} tokens" in answer.json()["error"]["message"]
