"""Over HTTP: what becomes of replies that were cut, of requests that come twice, and of histories that are changed."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx

from drivetrain.common.tokens import unpack_ids

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
THANKS = {"role": "user", "content": "Thanks"}


def said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


async def chat(proxy: Any, messages: list[Any], **more: Any) -> httpx.Response:
    body = {"model": "default", "messages": messages, "max_tokens": 50, **more}
    async with httpx.AsyncClient() as http:
        return await http.post(f"{proxy.url}/v1/chat/completions", json=body, timeout=20)


async def leave_early(proxy: Any) -> None:
    """Ask, and close the connection as soon as some text came."""
    body = {"model": "default", "messages": [QUESTION], "max_tokens": 50, "stream": True}
    async with httpx.AsyncClient() as http, http.stream("POST", f"{proxy.url}/v1/chat/completions", json=body) as lines:
        async for line in lines.aiter_lines():
            if '"content":"' in line and '"content":""' not in line:
                return


async def test_a_request_that_comes_again_after_a_cut_is_one_turn(proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris is the capital."), hold=asyncio.Event(), hold_after=3)
    await leave_early(proxy)
    await asyncio.wait_for(engine.aborted.wait(), 5)
    await proxy.next_turn()
    for _ in range(2):
        engine.say(encode("Paris."))
    await chat(proxy, [QUESTION])
    await chat(proxy, [QUESTION, said("Paris."), THANKS])
    cut, whole, last = await proxy.recorded()
    assert [turn.finish for turn in (cut, whole, last)] == ["aborted", "stop", "stop"]
    assert len({cut.session, whole.session, last.session}) == 1
    assert (cut.parent, whole.parent, last.parent) == (None, None, whole.turn)
    states = {state.turn: (state.kind, state.messages, state.trainable) for state in await proxy.followed()}
    assert states[whole.turn][:2] == ("messages", [THANKS])
    assert states[cut.turn] == ("superseded", [], False)


async def test_a_resumed_reply_keeps_the_tokens_of_its_first_half(proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris is the capital."), die_after=5)
    half = ""
    body = {"model": "default", "messages": [QUESTION], "max_tokens": 50, "stream": True}
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{proxy.url}/v1/chat/completions", json=body, timeout=20)
    (cut,) = await proxy.recorded()
    half = cut.reply["content"]
    assert half
    assert half in "Paris is the capital."
    assert "error" in answer.text
    engine.say(encode("the rest."))
    await chat(proxy, [QUESTION, said(half), {"role": "user", "content": "Go on"}])
    _, rest = await proxy.recorded()
    assert (rest.parent, rest.session) == (cut.turn, cut.session)
    sent = engine.requests[-1]["token_ids"]
    first = unpack_ids(cut.prompt_ids) + unpack_ids(cut.response_ids)
    assert sent[: len(first)] == first
    engine.say(encode("You are welcome."))
    await chat(proxy, [QUESTION, said(half + "the rest."), THANKS])
    (merged,) = [turn for turn in await proxy.recorded() if turn.turn not in (cut.turn, rest.turn)]
    assert (merged.session, merged.parent, merged.drift_cause) == (cut.session, None, "history_edited")
    assert [state.messages for state in await proxy.followed() if state.turn == rest.turn] == [[THANKS]]


async def test_agents_and_titles_of_a_named_session_stand_apart(proxy: Any, engine: Any, encode: Encode) -> None:
    for _ in range(4):
        engine.say(encode("Paris."))
    tools = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
    work, agent, title = (
        [{"role": "system", "content": text}, {"role": "user", "content": f"{text} Now."}]
        for text in ("You work.", "You search.", "You make titles.")
    )
    for messages, brought in ((work, tools), (agent, tools), (title, [])):
        await chat(proxy, messages, tools=brought, session_id="s")
    await chat(proxy, [*agent, said("Paris."), THANKS], tools=tools, session_id="s")
    turns = await proxy.recorded()
    assert len({turn.session for turn in turns}) == 1
    assert [turn.kind for turn in turns] == ["main", "main", "side", "main"]
    assert [turn.thread == "main" for turn in turns] == [True, False, True, False]
    assert (turns[3].thread, turns[3].parent) == (turns[1].thread, turns[1].turn)


async def test_an_empty_message_of_an_attempt_that_failed_is_no_part_of_the_history(
    proxy: Any, engine: Any, encode: Any, ask: Any
) -> None:
    question = {"role": "user", "content": "The capital of France?"}
    engine.say(encode("Paris."))
    await ask(proxy, [question])
    engine.say(encode("Yes."))
    empty = {"role": "assistant", "content": ""}
    await ask(
        proxy, [question, empty, {"role": "assistant", "content": "Paris."}, {"role": "user", "content": "Sure?"}]
    )
    first, second = sorted(await proxy.recorded(), key=lambda turn: turn.started_at)
    assert (second.parent, second.drift) == (first.turn, "clean")
