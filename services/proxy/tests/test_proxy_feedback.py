"""Feedback finds its reply: by any dialect's id, from another replica, after a restart, and after a loss of Redis."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from drivetrain.common.events import Signal

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
BODY = {"model": "default", "messages": [QUESTION], "max_tokens": 50}
TEXT = {"model": "default", "prompt": "The capital of France is", "max_tokens": 50}
DIALECTS = [
    ("/v1/chat/completions", BODY, "chatcmpl-"),
    ("/v1/messages", BODY, "msg_"),
    ("/v1/completions", TEXT, "cmpl-"),
]


async def post(proxy: Any, path: str, body: dict[str, Any], session: str = "anna") -> httpx.Response:
    async with httpx.AsyncClient() as http:
        return await http.post(proxy.url + path, json=body, headers={"X-Session-Id": session}, timeout=20)


async def asked(proxy: Any, path: str = "/v1/chat/completions", body: dict[str, Any] = BODY) -> str:
    answer = await post(proxy, path, body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


async def signals(proxy: Any) -> list[tuple[str | None, float | None, str]]:
    events = [event for event in await proxy.events() if isinstance(event, Signal)]
    return [(event.turn, event.value, event.text) for event in events]


async def lose_redis(proxy: Any) -> None:
    keys = [key async for key in proxy.redis.scan_iter(match=proxy.index._prefix + "*")]
    await proxy.redis.delete(*keys)


@pytest.fixture(autouse=True)
def replies(engine: Any, encode: Encode) -> None:
    engine.say_always(encode("Paris."))


@pytest.mark.parametrize(("path", "body", "prefix"), DIALECTS)
async def test_the_id_of_any_dialects_reply_names_its_turn(
    proxy: Any, path: str, body: dict[str, Any], prefix: str
) -> None:
    reply = await asked(proxy, path, body)
    assert reply.startswith(prefix)
    assert (await post(proxy, "/v1/feedback", {"response": reply, "score": 0.25, "text": "So so"})).status_code == 200
    (turn,) = await proxy.recorded()
    assert await signals(proxy) == [(turn.turn, 0.25, "So so")]


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("by", ["response", "turn", "session"])
async def test_feedback_comes_to_a_proxy_that_was_started_since(
    start_proxy: Any, engine: Any, by: str, lost: bool
) -> None:
    async with start_proxy([engine.url]) as first:
        reply, bus = await asked(first), first.bus
        await first.events()
        if lost:
            await lose_redis(first)
    async with start_proxy([engine.url], bus=bus) as second:
        named = {"response": reply, "turn": reply.removeprefix("chatcmpl-"), "session": "anna"}[by]
        answer = await post(second, "/v1/feedback", {by: named, "thumb": "down"}, session="another")
        assert answer.status_code == 200, answer.text
        assert await signals(second) == [(reply.removeprefix("chatcmpl-"), -1.0, "")]


async def test_the_last_reply_of_a_session_is_its_last_at_any_replica(start_proxy: Any, engine: Any) -> None:
    async with start_proxy([engine.url]) as one, start_proxy([engine.url], name="two", bus=one.bus) as two:
        await asked(one)
        last = await asked(two)
        assert (await post(one, "/v1/feedback", {"thumb": "up"})).status_code == 200
        assert await signals(one) == [(last.removeprefix("chatcmpl-"), 1.0, "")]


@pytest.mark.parametrize("name", ["*", ">", "chatcmpl-*", "a.b", "", " ", "0" * 31, "chatcmpl-" + "0" * 32, "\r\nPUB"])
async def test_what_is_no_id_names_no_reply(proxy: Any, name: str) -> None:
    await asked(proxy)
    await proxy.events()
    answer = await post(proxy, "/v1/feedback", {"response": name or "x", "thumb": "up"})
    assert answer.status_code == 404, answer.text
