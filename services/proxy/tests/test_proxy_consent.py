"""Consent `off`, of a key or of a request: whatever becomes of it, no word of it is stored or logged anywhere."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from drivetrain.common.bus import connect
from drivetrain.common.keys import KeyEntry, hash_of, new_key, write_keys
from drivetrain.common.settings import BusSettings
from tests.chaos.deployment import Proxy, Server, proxy
from tests.servers import free_port, nats_command

MARK, OPEN = "zebrafish", "The capital of France?"
"""A word that stands in all that must not be kept, and what may."""
TOOL = {"type": "function", "function": {"name": "run", "description": MARK, "parameters": {"type": "object"}}}


@dataclass
class Running:
    service: Proxy
    bus_url: str
    redis_url: str
    folder: Path
    off_key: str
    train_key: str

    async def post(self, key: str, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        sent = {"authorization": f"Bearer {key}"} | {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(base_url=self.service.url, timeout=20) as http:
            return await http.post(path, json=body, headers=sent)

    async def stored(self) -> bytes:
        """All bytes of the spool, of JetStream's files and of the logs, and all keys and values of Redis."""
        redis: Any = Redis.from_url(self.redis_url)
        values = [key + (await redis.dump(key) or b"") for key in await redis.keys("*")]
        await redis.aclose()
        return b"".join([*values, *(path.read_bytes() for path in self.folder.rglob("*") if path.is_file())])


@pytest.fixture
async def running(
    engine: Any, model_folder: Path, tmp_path: Path, valkey_url: str, environment_without_settings: dict[str, str]
) -> AsyncIterator[Running]:
    """A proxy that logs all it can, with a key that allows nothing to be kept and one that allows all."""
    port, redis_url = free_port(), valkey_url.replace("/0", "/4")
    keys = {new_key(): consent for consent in ("off", "train")}
    entries = {key_id: KeyEntry(hash=hash_of(key), consent=consent) for (key, key_id), consent in keys.items()}
    (tmp_path / "keys.toml").write_text(write_keys(entries))
    nats = Server(nats_command(port, tmp_path / "nats"), port, tmp_path / "nats.log")
    settings = {
        "SECRET": "a secret of the tests",
        "MODEL": str(model_folder),
        "BUS__URL": f"nats://127.0.0.1:{port}",
        "SESSIONS__REDIS_URL": redis_url,
        "ENGINE__REPLICAS": engine.url,
        "ACCESS__KEYS": str(tmp_path / "keys.toml"),
        "LOG__LEVEL": "debug",
    }
    service = proxy(tmp_path / "proxy", [free_port(), free_port()], environment_without_settings, settings)
    try:
        nats.start()
        await nats.listening()
        service.start()
        await service.ready()
        off, train = (key for key, _ in keys)
        yield Running(service, settings["BUS__URL"], redis_url, tmp_path, off, train)
    finally:
        for server in (service, nats):
            if server.process is not None and server.process.poll() is None:
                server.kill()


async def test_off_leaves_no_word_in_the_spool_in_redis_in_jetstream_and_in_the_logs(
    running: Running, engine: Any, encode: Any
) -> None:
    chat, key = "/v1/chat/completions", running.off_key
    engine.say_always(encode(f"{MARK}."))
    message = {"role": "user", "content": f"{MARK}?"}
    body = {"model": "default", "messages": [message], "tools": [TOOL], "user": MARK, "stop": [f"{MARK}!"]}
    whole = await running.post(key, chat, body)
    assert MARK in whole.json()["choices"][0]["message"]["content"]
    history = [message, {"role": "assistant", "content": f"{MARK}."}, {"role": "user", "content": f"Thanks {MARK}"}]
    # It goes on in a session that bears the word, is streamed, ends, is refused, breaks off, and is asked again.
    follow = body | {"messages": history, "stream": True}
    assert (await running.post(key, chat, follow, X_Session_Id=MARK, X_Session_Done="1")).status_code == 200
    assert (await running.post(key, f"/s/{MARK}{chat}", follow)).status_code == 200
    assert (await running.post(key, chat, body | {"temperature": MARK})).status_code == 400
    assert (await running.post(key, chat, body | {"model": MARK})).status_code == 404
    assert (await running.post(key, chat, body | {"messages": [message | {"content": MARK * 3000}]})).status_code == 400
    engine.say(encode(f"{MARK} {MARK}"), die_after=3)
    await running.post(key, chat, body | {"stream": True})
    engine.say([1], status=500, said=f"cannot do {MARK}")
    assert MARK in (await running.post(key, chat, body)).text
    engine.say([1], raw=f"data: {MARK}\n\n".encode())
    await running.post(key, chat, body)
    claude = {"model": "default", "messages": [message], "system": MARK, "max_tokens": 20}
    assert (await running.post(key, "/v1/messages", claude)).status_code == 200
    assert (await running.post(key, "/v1/completions", {"model": "default", "prompt": MARK})).status_code == 200
    feedback = {"response": whole.json()["id"], "thumb": "up", "text": MARK}
    assert (await running.post(key, "/v1/feedback", feedback)).status_code == 404
    # A request may say so too, with a key that allows all; and a key that does not, is not asked.
    said = await running.post(running.train_key, chat, body, X_Drivetrain_Record="off")
    assert MARK in said.json()["choices"][0]["message"]["content"]
    assert (await running.post(key, chat, body, X_Drivetrain_Record="train")).status_code == 200
    # What may be kept is, and it is the last of all.
    engine.say(encode("Paris."))
    asked = {"model": "default", "messages": [{"role": "user", "content": OPEN}]}
    await running.post(running.train_key, chat, asked)
    bus = await connect(BusSettings(url=running.bus_url))
    async with asyncio.timeout(20):
        while True:
            if events := [stored.event async for stored in bus.replay("TURNS", ">")]:
                break
            await asyncio.sleep(0.05)
    signals = [stored async for stored in bus.replay("SIGNALS", ">")]
    await bus.close()
    assert [event.messages for event in events] == [asked["messages"]]
    assert signals == []
    found = await running.stored()
    assert found.count(OPEN.encode()) >= 3  # in the spool, in Redis and in JetStream
    assert MARK.encode() not in found
