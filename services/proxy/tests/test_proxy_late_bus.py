"""A proxy whose NATS comes after it, or never, or goes: people are answered, and what they were told is not lost."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from drivetrain.common.bus import Bus, BusError, connect
from drivetrain.common.events import Signal, TurnFollowed, TurnRecorded
from drivetrain.common.settings import BusSettings
from drivetrain.proxy.late_bus import LateBus
from tests.chaos.deployment import Proxy, Server, proxy
from tests.servers import free_port, nats_command

QUESTION = {"role": "user", "content": "The capital of France?"}
REPLY = {"role": "assistant", "content": "Paris."}
THANKS = {"role": "user", "content": "Thanks"}


async def chat(http: httpx.AsyncClient, *messages: dict[str, str]) -> str:
    answer = await http.post("/v1/chat/completions", json={"model": "default", "messages": messages})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


async def without(service: Proxy) -> list[str]:
    """What the proxy, which is ready, says that it does without."""
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"http://127.0.0.1:{service.admin}/readyz")
    assert answer.status_code == 200, answer.text
    found: list[str] = answer.json()["without"]
    return found


async def until_without(service: Proxy, *names: str) -> None:
    async with asyncio.timeout(30):
        while True:
            if await without(service) == list(names):
                return
            await asyncio.sleep(0.05)


async def stored(bus: Bus, count: int) -> list[Any]:
    async with asyncio.timeout(30):
        while True:
            if len(found := [s.event async for s in bus.replay("TURNS", "turn.>")]) >= count:
                return found
            await asyncio.sleep(0.05)


async def test_a_proxy_starts_and_serves_before_its_bus_and_tells_it_all_when_it_comes(
    engine: Any,
    encode: Any,
    model_folder: Path,
    tmp_path: Path,
    valkey_url: str,
    environment_without_settings: dict[str, str],
) -> None:
    engine.say_always(encode("Paris."))
    port = free_port()
    nats = Server(nats_command(port, tmp_path / "nats"), port, tmp_path / "nats.log")
    settings = {
        "SECRET": "a secret of the tests",
        "MODEL": str(model_folder),
        "BUS__URL": f"nats://127.0.0.1:{port}",
        "SESSIONS__REDIS_URL": valkey_url.replace("/0", "/3"),
        "ENGINE__REPLICAS": engine.url,
    }
    service = proxy(tmp_path / "proxy", [free_port(), free_port()], environment_without_settings, settings)
    try:
        service.start()
        await service.ready()
        assert await without(service) == ["bus"]
        async with httpx.AsyncClient(base_url=service.url, timeout=20) as http:
            assert await chat(http, QUESTION) == "Paris."
            assert await chat(http, QUESTION, REPLY, THANKS) == "Paris."
            nats.start()
            await until_without(service)
            bus = await connect(BusSettings(url=settings["BUS__URL"]))
            events = await stored(bus, 3)
            one, two = (event for event in events if isinstance(event, TurnRecorded))
            (state,) = (event for event in events if isinstance(event, TurnFollowed))
            assert (one.messages, two.messages, two.parent) == ([QUESTION], [THANKS], one.turn)
            assert (state.turn, state.messages) == (one.turn, [THANKS])
            # It goes: still ready, and people are still answered. It comes back with what it had, and has the rest.
            await bus.close()
            nats.kill()
            await until_without(service, "bus")
            assert await chat(http, {"role": "user", "content": "Another"}) == "Paris."
            nats.start()
            await until_without(service)
        bus = await connect(BusSettings(url=settings["BUS__URL"]))
        assert len(await stored(bus, 4)) == 4
        await bus.close()
        assert service.process is not None
        service.process.terminate()
        assert await asyncio.to_thread(service.process.wait, 20) == 0
    finally:
        for server in (service, nats):
            if server.process is not None and server.process.poll() is None:
                server.kill()


async def test_a_bus_that_never_came_is_an_error_of_the_bus_and_a_stop_does_not_wait_for_it() -> None:
    bus = LateBus(BusSettings(url=f"nats://127.0.0.1:{free_port()}", shards=3))
    signal = Signal(kind="feedback", tenant="t", policy="p", session="s", id="1", value=1.0, at=1.0)
    with pytest.raises(BusError, match="no NATS server has answered"):
        await bus.publish(signal)
    with pytest.raises(BusError):
        await bus.get("TURNS", "turn.>")
    with pytest.raises(BusError):
        await bus.last("TURNS", "turn.>")
    with pytest.raises(BusError):
        bus.replay("TURNS", "turn.>")
    assert (bus.here, bus.shards) == (False, 3)
    stop = asyncio.Event()
    looking = asyncio.create_task(bus.run(lambda: _wait(stop)))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(looking, 2)
    await bus.close()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
