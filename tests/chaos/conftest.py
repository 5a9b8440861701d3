"""The deployment that the chaos tests break: two proxies, NATS and Valkey as processes, each with its own store."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from drivetrain.common.bus import connect
from drivetrain.common.settings import BusSettings
from tests.chaos.deployment import Deployment, Server, proxy
from tests.chaos.engine import serving
from tests.servers import free_port, nats_command, valkey_command

TEMPLATE = """{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder without weights: one token a byte, and a ChatML template."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate([*special, *alphabet])}, []))
    backend.add_special_tokens(special)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=special[2], unk_token=special[0])
    tokenizer.chat_template = TEMPLATE
    folder = tmp_path_factory.mktemp("model")
    tokenizer.save_pretrained(str(folder))
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 30_000, "model_type": "llama"}))
    return folder


@pytest.fixture(scope="module")
async def deployment(
    tmp_path_factory: pytest.TempPathFactory, model: Path, environment_without_settings: dict[str, str]
) -> AsyncIterator[Deployment]:
    folder, ports = tmp_path_factory.mktemp("chaos"), [free_port() for _ in range(6)]
    nats = Server(nats_command(ports[0], folder / "nats"), ports[0], folder / "nats.log")
    valkey = Server(valkey_command(ports[1]), ports[1], folder / "valkey.log")
    async with serving() as engine:
        settings = {
            "SECRET": "a secret of the tests",
            "MODEL": str(model),
            "BUS__URL": f"nats://127.0.0.1:{nats.port}",
            "SESSIONS__REDIS_URL": f"redis://127.0.0.1:{valkey.port}/0",
            "SESSIONS__TIMEOUT_S": "5",
            "ENGINE__REPLICAS": engine.url,
        }
        proxies = [
            proxy(folder / name, ports[port : port + 2], environment_without_settings, settings)
            for name, port in (("one", 2), ("two", 4))
        ]
        servers: list[Server] = [nats, valkey, *proxies]
        try:
            for server in (nats, valkey):
                server.start()
                await server.listening()
            bus = await connect(BusSettings(url=settings["BUS__URL"]))
            for replica in proxies:
                replica.start()
            await asyncio.gather(*(replica.ready() for replica in proxies))
            yield Deployment(nats, valkey, proxies, engine, bus)
            await bus.close()
        finally:
            for server in reversed(servers):
                if server.process is not None and server.process.poll() is None:
                    server.kill()
