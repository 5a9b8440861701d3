"""Several proxies, or one after another: any of them goes on with any conversation, with Redis and without."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from drivetrain.common.telemetry.admin import listen
from drivetrain.common.tokens import unpack_ids
from tests.proxy_sessions import QUESTION, REPLY, THANKS, chat

Encode = Callable[[str], list[int]]


@pytest.fixture(autouse=True)
def replies(engine: Any, encode: Encode) -> None:
    """The engine says "Paris." to everything, six times."""
    for _ in range(6):
        engine.say(encode("Paris."))


async def test_any_replica_of_the_proxy_continues_any_conversation(start_proxy: Any, engine: Any) -> None:
    async with start_proxy([engine.url]) as one, start_proxy([engine.url], name="two", bus=one.bus) as two:
        history = [QUESTION]
        for proxy in (one, two, one, two):
            await chat(proxy, history)
            history = [*history, REPLY, THANKS]
        await two.events()
        turns = sorted(await one.recorded(), key=lambda turn: turn.started_at)
        states = await one.followed()
    assert [turn.parent for turn in turns] == [None, *(turn.turn for turn in turns[:-1])]
    assert [turn.drift for turn in turns] == ["root", "clean", "clean", "clean"]
    assert len({(state.turn, state.n) for state in states}) == 3
    whole = [token for turn in turns for token in unpack_ids(turn.prompt_ids) + unpack_ids(turn.response_ids)]
    assert whole[: len(engine.requests[-1]["token_ids"])] == engine.requests[-1]["token_ids"]


async def test_a_retry_at_another_replica_is_not_a_second_next_state(start_proxy: Any, engine: Any) -> None:
    async with start_proxy([engine.url]) as one, start_proxy([engine.url], name="two", bus=one.bus) as two:
        await chat(one, [QUESTION])
        await chat(one, [QUESTION, REPLY, THANKS])
        await chat(two, [QUESTION, REPLY, THANKS])
        await two.events()
        assert [state.n for state in await one.followed()] == [1]


async def test_without_redis_the_local_cache_carries_the_conversation(start_proxy: Any, engine: Any) -> None:
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    listener.close()
    async with start_proxy([engine.url], redis_url=f"redis://127.0.0.1:{port}/0") as proxy:
        await chat(proxy, [QUESTION])
        answer = await chat(proxy, [QUESTION, REPLY, THANKS])
        await chat(proxy, [QUESTION, REPLY, {"role": "user", "content": "No"}])
        assert answer["choices"][0]["message"]["content"] == "Paris."
        one, two, _ = await proxy.recorded()
        assert two.parent == one.turn
        assert [state.n for state in await proxy.followed()] == [1, 2]


async def test_what_a_dead_proxy_had_spooled_comes_out_of_the_next(
    start_proxy: Any, engine: Any, tmp_path: Any
) -> None:
    async with start_proxy([engine.url]) as first:
        first.publisher._bus = None
        await chat(first, [QUESTION])
        assert first.recorder.spool.backlog_bytes > 0
    (log,) = (tmp_path / "spool").glob("*.log")
    with log.open("ab") as file:
        file.write(b"\x07\x00\x00\x00torn")
    async with start_proxy([engine.url]) as second:
        turn = await asyncio.wait_for(second.next_turn(), 5)
        assert turn.messages == [QUESTION]
