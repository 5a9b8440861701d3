"""Several replicas and policies behind one proxy, seen from outside: engines of the tests, real HTTP."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY

from drivetrain.common.bus import MemoryBus
from drivetrain.common.events import RolloutRef, WeightsCandidate, WeightsPromoted
from drivetrain.common.identity import RolloutKey, sign_rollout_key

SECRET = b"a secret of the tests"
Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=30, limits=limits) as client:
        yield client


def urls(engines: list[Any]) -> list[str]:
    return [engine.url for engine in engines]


def post(http: httpx.AsyncClient, proxy: Any, path: str = "/v1/chat/completions", **more: Any) -> Any:
    headers = more.pop("headers", {})
    body = {"model": "default", "messages": [QUESTION], **more}
    return http.post(proxy.url + path, json=body, headers=headers)


async def until(requests: int, *engines: Any) -> None:
    """Wait until the engines were asked so often, together."""
    async with asyncio.timeout(10):
        while sum(len(engine.requests) for engine in engines) < requests:
            asked = [asyncio.ensure_future(engine.asked.wait()) for engine in engines]
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            for engine, waiting in zip(engines, asked, strict=True):
                waiting.cancel()
                engine.asked.clear()


def rollout_key() -> dict[str, str]:
    rollout = RolloutRef(run="run", group="group", rollout="rollout", group_size=2)
    key = sign_rollout_key(SECRET, RolloutKey(rollout=rollout, policy="default", expires_at=2e10))
    return {"Authorization": f"Bearer {key}"}


async def test_a_session_stays_with_its_replica_and_sessions_spread(start_proxy: Any, engines: Any, http: Any) -> None:
    async with start_proxy(urls(engines)) as proxy:
        for turn in range(3):
            await asyncio.gather(
                *(post(http, proxy, f"/s/{name}/v1/chat/completions", seed=turn) for name in range(12))
            )
        turns = await proxy.recorded()
        assert len(turns) == 36
        assert len({(turn.session, turn.replica) for turn in turns}) == 12
        assert sum(bool(engine.requests) for engine in engines) >= 2


async def test_a_session_leaves_a_replica_that_is_much_busier(
    start_proxy: Any, engines: Any, http: Any, encode: Encode
) -> None:
    hold = asyncio.Event()
    for engine in engines[:2]:
        engine.say_always(encode("Paris."), hold=hold)
    async with start_proxy(urls(engines[:2]), limits={"max_lead": 1}) as proxy:
        # All of one session: its own replica takes two before the other is used, and then they take turns
        asking = [asyncio.create_task(post(http, proxy, "/s/a/v1/chat/completions", seed=n)) for n in range(6)]
        await until(6, *engines[:2])
        assert sorted(len(engine.requests) for engine in engines[:2]) in ([2, 4], [3, 3])
        hold.set()
        assert {answer.status_code for answer in await asyncio.gather(*asking)} == {200}


async def test_a_replica_is_avoided_while_it_is_not_well_or_lags(start_proxy: Any, engines: Any, http: Any) -> None:
    ill, old, good = engines[:3]
    ill.healthy, old.version = False, "2"
    async with start_proxy(urls([ill, old, good])) as proxy:
        await asyncio.gather(*(post(http, proxy, seed=n) for n in range(9)))
        assert [len(engine.requests) for engine in engines] == [0, 0, 9, 0]
        ill.healthy, old.version, good.healthy = True, "7", False
        async with asyncio.timeout(10):
            while not (ill.requests and old.requests):
                await post(http, proxy)
        assert gauge("replica_healthy", ill) == 1
        assert gauge("replica_version", old) == 7


def gauge(name: str, engine: Any) -> float | None:
    return REGISTRY.get_sample_value(f"drivetrain_proxy_{name}", {"policy": "default", "replica": engine.url})


async def test_a_replica_killed_under_load_fails_no_request_before_its_first_byte(
    start_proxy: Any, engines: Any, http: Any, encode: Encode
) -> None:
    lost, kept = engines[:2]
    for engine in (lost, kept):
        engine.say_always(encode("Paris is the capital."), pace=0.004)
    async with start_proxy(urls([lost, kept])) as proxy:

        async def work(name: int) -> list[httpx.Response]:
            path = f"/s/{name}/v1/chat/completions"
            return [await post(http, proxy, path, stream=True, seed=turn) for turn in range(4)]

        working = [asyncio.create_task(work(name)) for name in range(24)]
        await until(20, lost)
        await lost.kill()
        answers = [answer for answered in await asyncio.gather(*working) for answer in answered]
        assert [answer.status_code for answer in answers] == [200] * 96
        cut = [answer for answer in answers if "the reply was cut" in answer.text]
        whole = [answer for answer in answers if answer.text.endswith("data: [DONE]\n\n")]
        assert len(cut) + len(whole) == 96
        assert 0 < len(cut) <= 24
        turns = await proxy.recorded()
        assert len(turns) == 96
        assert {turn.replica for turn in turns if turn.finish == "error"} == {lost.url}
        assert sum(turn.finish == "error" for turn in turns) == len(cut)
        assert gauge("replica_healthy", lost) == 0
        assert gauge("replica_in_flight_requests", kept) == gauge("replica_in_flight_requests", lost) == 0


async def test_a_request_that_breaks_replicas_does_not_break_them_all(
    start_proxy: Any, engines: Any, http: Any
) -> None:
    for engine in engines:
        engine.say_always([1, 2, 3], die_after=0)
    async with start_proxy(urls(engines)) as proxy:
        assert (await post(http, proxy)).status_code == 503
    assert sorted(len(engine.requests) for engine in engines) == [0, 1, 1, 1]


async def test_too_many_requests_are_sent_away_in_the_words_of_each_dialect(
    start_proxy: Any, engines: Any, http: Any, encode: Encode
) -> None:
    engine, hold = engines[0], asyncio.Event()
    engine.say_always(encode("Paris."), hold=hold)
    async with start_proxy([engine.url], limits={"max_in_flight": 1, "queue_s": 0.05}) as proxy:
        asking = asyncio.create_task(post(http, proxy))
        await until(1, engine)
        chat = await post(http, proxy)
        assert (chat.status_code, chat.headers["retry-after"]) == (429, "1")
        assert chat.json()["error"]["code"] == "engine_busy"
        messages = await post(http, proxy, "/v1/messages", max_tokens=5)
        assert (messages.status_code, messages.headers["retry-after"]) == (429, "1")
        assert messages.json()["type"] == "error"
        assert messages.json()["error"]["type"] == "rate_limit_error"
        codex = await post(http, proxy, headers={"originator": "codex_cli_rs"})
        assert (codex.status_code, codex.headers["retry-after"]) == (503, "1")
        hold.set()
        assert (await asking).status_code == 200
        assert (await post(http, proxy)).status_code == 200


async def test_a_request_that_waits_in_the_queue_is_answered_when_there_is_room(
    start_proxy: Any, engines: Any, http: Any, encode: Encode
) -> None:
    engine, hold = engines[0], asyncio.Event()
    engine.say_always(encode("Paris."), hold=hold)
    async with start_proxy([engine.url], limits={"max_in_flight": 2}) as proxy:
        asking = [asyncio.create_task(post(http, proxy, seed=n)) for n in range(8)]
        await until(2, engine)
        hold.set()
        assert [answer.status_code for answer in await asyncio.gather(*asking)] == [200] * 8
        assert REGISTRY.get_sample_value("drivetrain_proxy_queued_requests", {"policy": "default"}) == 0


async def test_rollouts_wait_for_newer_weights_and_people_do_not(start_proxy: Any, engines: Any, http: Any) -> None:
    engine, bus = engines[0], MemoryBus()
    engine.version = "1"
    await bus.publish(WeightsPromoted(policy="default", version=1, replicas=["a"], at=0.0))
    await bus.publish(WeightsCandidate(policy="default", version=6, at=0.0, parent=1, digest="d", step=6))
    async with start_proxy([engine.url], bus=bus, limits={"queue_s": 0.05}) as proxy:
        assert (await post(http, proxy)).status_code == 200
        held = await post(http, proxy, headers=rollout_key())
        assert held.status_code == 429
        assert "5 versions behind" in held.json()["error"]["message"]
    async with start_proxy([engine.url], name="patient", bus=bus, limits={"queue_s": 20}) as proxy:
        waiting = asyncio.create_task(post(http, proxy, headers=rollout_key()))
        assert (await post(http, proxy)).status_code == 200
        assert not waiting.done()
        engine.version = "6"
        assert (await waiting).status_code == 200


async def test_each_policy_has_replicas_of_its_own(start_proxy: Any, engines: Any, http: Any) -> None:
    first, second = engines[:2]
    async with start_proxy([first.url], policies={"coder": [second.url]}) as proxy:
        assert (await post(http, proxy)).status_code == 200
        assert (await post(http, proxy, model="coder")).json()["model"] == "coder"
        assert [len(first.requests), len(second.requests)] == [1, 1]
        unknown = await post(http, proxy, model="gpt-5")
        assert unknown.status_code == 404
        assert "coder, default" in unknown.json()["error"]["message"]
        listed = (await http.get(proxy.url + "/v1/models")).json()["data"]
        assert [model["id"] for model in listed] == ["coder", "default"]
        assert {turn.policy: turn.replica for turn in await proxy.recorded()} == {
            "default": first.url,
            "coder": second.url,
        }
