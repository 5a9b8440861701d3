"""Processes that die between two steps, and callers that leave there: nothing is lost, and nothing is said twice."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from drivetrain.common.bus import BusError, MemoryBus
from tests.proxy_replicas import conversation, line, tokens, whole

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
REPLY = {"role": "assistant", "content": "Paris."}
THANKS = {"role": "user", "content": "Thanks"}


async def chat(proxy: Any, *messages: Any) -> None:
    async with httpx.AsyncClient(base_url=proxy.url, timeout=20) as http:
        answer = await http.post("/v1/chat/completions", json={"model": "default", "messages": messages})
    assert answer.status_code == 200, answer.text


async def nothing(*_: Any) -> None:
    """What a process does that is dead."""


async def test_a_turn_that_was_logged_and_not_yet_known_to_anyone_is_taken_over(
    start_proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say_always(encode("Paris."))
    async with start_proxy([engine.url], idle_s=0.001) as dead:
        dead.publisher._bus = None
        dead.sessions.remember = nothing
        await chat(dead, QUESTION)
    async with start_proxy([engine.url], idle_s=0.001) as next_one:
        first = await next_one.next_turn()
        await next_one.rebuilder.look()
        assert await next_one.closer.look() == 1
        # Also for a replica that has nothing but the index.
        async with start_proxy([engine.url], name="other", bus=next_one.bus) as other:
            await chat(other, QUESTION, REPLY, THANKS)
            await other.events()
            _, second = await other.recorded()
        assert (second.parent, second.drift) == (first.turn, "clean")
        states = [(state.turn, state.n, state.kind) for state in await next_one.followed()]
        assert states == [(first.turn, 1, "idle"), (first.turn, 2, "messages")]


async def test_what_was_published_and_is_read_once_more_changes_nothing(
    start_proxy: Any, engine: Any, encode: Encode, tmp_path: Any
) -> None:
    engine.say_always(encode("Paris."))
    async with start_proxy([engine.url]) as one:
        await chat(one, QUESTION)
        await chat(one, QUESTION, REPLY, THANKS)
        before = await one.events()
    (tmp_path / "spool" / "cursor").unlink()
    async with start_proxy([engine.url], bus=one.bus) as two:
        assert await two.events() == before
        await two.rebuilder.look()
        assert await two.closer.look() == 0


async def test_a_caller_that_leaves_after_the_last_token_can_go_on_from_it(
    start_proxy: Any, engine: Any, encode: Encode, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.say_always(encode("Paris."))
    async with start_proxy([engine.url]) as proxy:
        waiting, go, write = asyncio.Event(), asyncio.Event(), proxy.index.write

        async def slow(*arguments: Any) -> Any:
            waiting.set()
            await go.wait()
            return await write(*arguments)

        monkeypatch.setattr(proxy.index, "write", slow)
        asking = asyncio.create_task(chat(proxy, QUESTION))
        await asyncio.wait_for(waiting.wait(), 5)
        asking.cancel()
        await asyncio.wait((asking,))
        go.set()
        await chat(proxy, QUESTION, REPLY, THANKS)
        first, second = await proxy.recorded()
        assert (first.finish, second.parent) == ("stop", first.turn)
        async with start_proxy([engine.url], name="other", bus=proxy.bus) as other:
            assert await other.sessions.last(first.session) is not None


async def test_a_rebuild_that_breaks_off_is_done_by_the_next_one(start: Any, bus: MemoryBus) -> None:
    turns, replay = conversation(600), bus.replay
    for turn in turns:
        await bus.publish(turn)

    async def half(*arguments: Any) -> AsyncIterator[Any]:
        count = 0
        async for stored in replay(*arguments):
            yield stored
            count += 1
            if count == 450:
                raise BusError("away")

    bus.replay = half  # type: ignore[method-assign]
    await start(bus).rebuilder.look()
    assert (await start(bus).index.epoch() or ("?", ""))[0] == ""
    bus.replay = replay  # type: ignore[method-assign]
    await start(bus).rebuilder.look()
    assert whole(await start(bus).sessions.find([line(turns[-1])])) == tokens(turns)
