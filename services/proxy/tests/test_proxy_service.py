"""The proxy as a process: it starts from settings, drains on SIGTERM, and leaves its turns on a real bus."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from drivetrain.common.bus import connect
from drivetrain.common.events import TurnRecorded
from drivetrain.common.settings import BusSettings

SECRET = "a secret of the tests"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def until_ready(admin: str, process: asyncio.subprocess.Process) -> None:
    async with httpx.AsyncClient() as http, asyncio.timeout(60):
        while process.returncode is None:
            try:
                if (await http.get(f"{admin}/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
    raise AssertionError("the proxy ended before it was ready")


async def run(settings: dict[str, str], folder: Path) -> asyncio.subprocess.Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRIVETRAIN_")}
    environment |= {f"DRIVETRAIN_PROXY_{name}": value for name, value in settings.items()}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "drivetrain.proxy"), env=environment, cwd=folder, stderr=asyncio.subprocess.PIPE
    )


async def test_it_starts_answers_and_drains(
    engine: Any, encode: Callable[[str], list[int]], model_folder: Path, tmp_path: Path, nats_url: str, valkey_url: str
) -> None:
    port, admin = free_port(), free_port()
    settings = {
        "SECRET": SECRET,
        "MODEL": str(model_folder),
        "BUS__URL": nats_url,
        "SESSIONS__REDIS_URL": valkey_url,
        "ENGINE__REPLICAS": engine.url,
        "LISTEN__PORT": str(port),
        "ADMIN__PORT": str(admin),
        "SPOOL__FOLDER": str(tmp_path / "spool"),
    }
    process = await run(settings, tmp_path)
    try:
        await until_ready(f"http://127.0.0.1:{admin}", process)
        hold = asyncio.Event()
        engine.say(encode("Paris."), hold=hold)
        question = {"role": "user", "content": "The capital of France?"}
        body = {"model": "default", "messages": [question]}
        async with httpx.AsyncClient(timeout=20) as http:
            asking = asyncio.create_task(http.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body))
            await asyncio.wait_for(engine.asked.wait(), 10)
            process.send_signal(signal.SIGTERM)
            hold.set()
            answer = await asking
        assert answer.json()["choices"][0]["message"]["content"] == "Paris."
        assert await asyncio.wait_for(process.wait(), 15) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    turn = answer.json()["id"].removeprefix("chatcmpl-")
    bus = await connect(BusSettings(url=nats_url))
    (stored,) = await bus.last("TURNS", f"turn.recorded.*.*.*.{turn}")
    await bus.close()
    assert isinstance(stored.event, TurnRecorded)
    assert stored.event.messages == [question]


async def test_a_model_folder_without_a_tokenizer_ends_the_start_with_words(
    tmp_path: Path, nats_url: str, valkey_url: str
) -> None:
    process = await run({"SECRET": SECRET, "MODEL": str(tmp_path), "BUS__URL": nats_url}, tmp_path)
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode != 0
    assert b"no usable tokenizer" in errors
