"""What the weights service says of the replicas, and what the proxy makes of it, seen from outside."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from drivetrain.common.bus import MemoryBus
from drivetrain.common.events import Post, ReplicaRotation

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=30) as client:
        yield client


async def ask(http: httpx.AsyncClient, proxy: Any, session: str = "s", seed: int = 0) -> int:
    body = {"model": "default", "messages": [QUESTION], "seed": seed}
    return (await http.post(f"{proxy.url}/s/{session}/v1/chat/completions", json=body)).status_code


async def say(bus: MemoryBus, *posts: Post, version: int = 5, **more: Any) -> None:
    rotation = ReplicaRotation(policy="default", version=version, posts=list(posts), at=time.time(), **more)
    await bus.publish(rotation)
    await asyncio.sleep(0.05)


@pytest.fixture
def speaking(engines: Any, encode: Encode) -> Any:
    """Engines that serve the base model and say so, whatever adapter they are asked for."""
    for engine in engines:
        engine.version = "0"
        engine.say_always(encode("Paris."), versions=[("0", 0, len(encode("Paris.")))])
    return engines


async def test_an_adapter_is_asked_for_by_name_and_its_tokens_have_its_version(
    start_proxy: Any, speaking: Any, http: Any
) -> None:
    engine, bus = speaking[0], MemoryBus()
    async with start_proxy([engine.url], bus=bus) as proxy:
        assert await ask(http, proxy) == 200
        await say(bus, Post(url=engine.url, label=0, adapters=[5]))
        assert await ask(http, proxy, seed=1) == 200
        assert [request.get("model") for request in engine.requests] == [None, "default@5"]
        turns = await proxy.recorded()
        assert [[span.version for span in turn.versions] for turn in turns] == [[0], [5]]
        assert all(turn.exact for turn in turns)


async def test_a_promoted_adapter_is_asked_for_at_once(start_proxy: Any, speaking: Any, http: Any) -> None:
    engine, bus = speaking[0], MemoryBus()
    async with start_proxy([engine.url], bus=bus) as proxy:
        for version in (5, 6):
            await say(bus, Post(url=engine.url, label=0, adapters=[5, 6]), version=version)
            assert await ask(http, proxy, seed=version) == 200
        assert [request["model"] for request in engine.requests] == ["default@5", "default@6"]


async def test_an_adapter_that_was_unloaded_meanwhile_costs_no_request(
    start_proxy: Any, speaking: Any, http: Any, encode: Encode
) -> None:
    engine, bus = speaking[0], MemoryBus()
    async with start_proxy([engine.url], bus=bus) as proxy:
        await say(bus, Post(url=engine.url, label=0, adapters=[5]))
        engine.say(encode("no"), status=404, said="The model `default@5` does not exist.")
        bus.streams["REPLICAS"].clear()
        bus._watches.clear()  # the proxy does not hear of it
        await say(bus, Post(url=engine.url, label=0, adapters=[6]), version=6)
        assert await ask(http, proxy) == 200
        assert engine.requests[-1]["model"] == "default@6"


async def test_a_replica_out_of_rotation_gets_nothing_until_it_is_in_again(
    start_proxy: Any, speaking: Any, http: Any
) -> None:
    good, bad, bus = speaking[0], speaking[1], MemoryBus()
    async with start_proxy([good.url, bad.url], bus=bus) as proxy:
        await say(bus, Post(url=good.url, label=0), Post(url=bad.url, label=None, out="its probe is off"), version=0)
        await asyncio.gather(*(ask(http, proxy, f"s{n}") for n in range(12)))
        assert (len(good.requests), len(bad.requests)) == (12, 0)
        await say(bus, Post(url=good.url, label=None, out="being drained"), Post(url=bad.url, label=0), version=0)
        await asyncio.gather(*(ask(http, proxy, f"t{n}") for n in range(12)))
        assert (len(good.requests), len(bad.requests)) == (12, 12)


async def test_a_replica_that_restarted_waits_for_its_weights(start_proxy: Any, speaking: Any, http: Any) -> None:
    steady, restarted, bus = speaking[0], speaking[1], MemoryBus()
    async with start_proxy([steady.url, restarted.url], bus=bus) as proxy:
        await say(bus, Post(url=steady.url, label=0), Post(url=restarted.url, label=0), version=0)
        restarted.version = "default"
        await asyncio.sleep(0.3)
        await asyncio.gather(*(ask(http, proxy, f"s{n}") for n in range(12)))
        assert (len(steady.requests), len(restarted.requests)) == (12, 0)


async def test_a_replica_that_announced_itself_is_asked_too(start_proxy: Any, speaking: Any, http: Any) -> None:
    listed, late, bus = speaking[0], speaking[1], MemoryBus()
    async with start_proxy([listed.url], bus=bus) as proxy:
        await say(bus, Post(url=listed.url, label=0), Post(url=late.url, label=0), version=0)
        await asyncio.sleep(0.3)
        await asyncio.gather(*(ask(http, proxy, f"s{n}") for n in range(20)))
        assert min(len(listed.requests), len(late.requests)) > 0
        await say(bus, Post(url=listed.url, label=0), version=0)
        before = len(late.requests)
        await asyncio.gather(*(ask(http, proxy, f"t{n}") for n in range(20)))
        assert len(late.requests) == before


async def test_the_same_sessions_try_a_candidate_and_get_it_on_the_replica_that_has_it(
    start_proxy: Any, speaking: Any, http: Any
) -> None:
    old, new, bus = speaking[0], speaking[1], MemoryBus()
    new.version = "6"
    async with start_proxy([old.url, new.url], bus=bus) as proxy:
        await say(bus, Post(url=old.url, label=0), Post(url=new.url, label=6), version=0, canary=6, share=0.5)
        await asyncio.gather(*(ask(http, proxy, f"s{n}", seed) for n in range(20) for seed in range(3)))
        assert len(old.requests) + len(new.requests) == 60
        assert 9 <= len(new.requests) <= 51
        sessions = {turn.session: turn.replica for turn in await proxy.recorded()}
        assert {(turn.session, turn.replica) for turn in await proxy.recorded()} == set(sessions.items())


@pytest.mark.parametrize(("sticky", "then"), [(True, ["default@5", "default@5"]), (False, ["default@5", "default@6"])])
async def test_a_session_keeps_its_version_where_the_policy_says_so(
    start_proxy: Any, speaking: Any, http: Any, sticky: bool, then: list[str]
) -> None:
    engine, bus = speaking[0], MemoryBus()
    async with start_proxy([engine.url], bus=bus) as proxy:
        await say(bus, Post(url=engine.url, label=0, adapters=[5]), sticky=sticky)
        await ask(http, proxy, "first")
        await say(bus, Post(url=engine.url, label=0, adapters=[5, 6]), version=6, sticky=sticky)
        await ask(http, proxy, "first", seed=1)
        await ask(http, proxy, "second")
        assert [request["model"] for request in engine.requests] == [*then, "default@6"]
