"""From turn to turn: the exact prompt, next states, branches and retries, as the bus has them."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from drivetrain.common.tokens import unpack_ids
from drivetrain.proxy.prompts.templates import Template

Encode = Callable[[str], list[int]]
Ask = Callable[..., Any]
QUESTION = {"role": "user", "content": "The capital of France?"}
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "weather", "description": "", "parameters": WEATHER}}


async def test_the_next_prompt_begins_with_the_exact_tokens_of_the_turn_before(
    ask: Ask, proxy: Any, engine: Any, encode: Encode, template: Template
) -> None:
    odd = [*[i for letter in "Paris" for i in encode(letter)[:-1]], *encode(" ")]
    first = engine.say(odd)
    assert first != encode("Paris ")
    reply = await ask(proxy, [QUESTION])
    engine.say(encode("You are welcome"))
    messages = [QUESTION, {"role": "assistant", "content": reply.choices[0].message.content.strip()}]
    await ask(proxy, [*messages, {"role": "user", "content": "Thanks"}])
    prompts = [request["token_ids"] for request in engine.requests]
    assert prompts[1][: len(prompts[0]) + len(first)] == prompts[0] + first
    rest = template.tokenizer.decode(prompts[1][len(prompts[0]) + len(first) :])
    assert rest == "\n<|im_start|>user\nThanks<|im_end|>\n<|im_start|>assistant\n"
    one, two = await proxy.recorded()
    assert two.parent == one.turn
    assert two.session == one.session
    assert two.drift == "realigned"
    assert unpack_ids(two.prompt_ids) == prompts[1][len(prompts[0]) + len(first) :]
    assert two.messages == [{"role": "user", "content": "Thanks"}]


async def test_history_that_the_template_writes_the_same_way_is_clean(
    ask: Ask, proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say(encode("Paris."))
    engine.say(encode("Yes."))
    await ask(proxy, [QUESTION])
    await ask(proxy, [QUESTION, {"role": "assistant", "content": "Paris."}, {"role": "user", "content": "Sure?"}])
    assert [turn.drift for turn in await proxy.recorded()] == ["root", "clean"]


async def test_all_messages_after_a_reply_are_its_next_state(ask: Ask, proxy: Any, engine: Any, encode: Encode) -> None:
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    engine.say(encode("I look.\n" + call + "\n" + call))
    engine.say(encode("Rain."))
    first = await ask(proxy, [QUESTION], tools=[TOOL])
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls"
    assert message.content == "I look."
    assert [json.loads(c.function.arguments) for c in message.tool_calls] == [{"city": "Paris"}] * 2
    assert len({c.id for c in message.tool_calls}) == 2
    echo = {"role": "assistant", "content": "I look."} | {
        "tool_calls": [
            {"id": f"x{i}", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
            for i in range(2)
        ]
    }
    world = [
        {"role": "tool", "tool_call_id": "x0", "content": "rain"},
        {"role": "tool", "tool_call_id": "x1", "content": "still rain"},
        {"role": "user", "content": "And?"},
    ]
    await ask(proxy, [QUESTION, echo, *world], tools=[TOOL])
    (state,) = await proxy.followed()
    one, two = await proxy.recorded()
    assert (state.turn, state.n, state.kind) == (one.turn, 1, "messages")
    assert state.messages == world
    assert state.before == [QUESTION]
    assert state.reply["content"] == "I look."
    assert state.trainable
    assert two.parent == one.turn
    assert one.tools == [TOOL]


async def test_a_retry_is_not_a_second_next_state(ask: Ask, proxy: Any, engine: Any, encode: Encode) -> None:
    for text in ("Paris.", "Yes.", "Yes!"):
        engine.say(encode(text))
    await ask(proxy, [QUESTION])
    second = [QUESTION, {"role": "assistant", "content": "Paris."}, {"role": "user", "content": "Sure?"}]
    await ask(proxy, second)
    await ask(proxy, second)
    assert [state.n for state in await proxy.followed()] == [1]


async def test_another_branch_of_the_conversation_is_a_second_next_state(
    ask: Ask, proxy: Any, engine: Any, encode: Encode
) -> None:
    for text in ("Paris.", "Yes.", "No."):
        engine.say(encode(text))
    await ask(proxy, [QUESTION])
    history = [QUESTION, {"role": "assistant", "content": "Paris."}]
    await ask(proxy, [*history, {"role": "user", "content": "Sure?"}])
    await ask(proxy, [*history, {"role": "user", "content": "Is it Lyon?"}])
    states = await proxy.followed()
    assert [(state.n, state.messages[0]["content"]) for state in states] == [(1, "Sure?"), (2, "Is it Lyon?")]
    first, *branches = await proxy.recorded()
    assert {turn.parent for turn in branches} == {first.turn}


async def test_other_tools_fork_the_prompt_but_not_the_conversation(
    ask: Ask, proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say(encode("Paris."))
    engine.say(encode("Yes."))
    await ask(proxy, [QUESTION])
    history = [QUESTION, {"role": "assistant", "content": "Paris."}, {"role": "user", "content": "Sure?"}]
    await ask(proxy, history, tools=[TOOL])
    one, two = await proxy.recorded()
    assert (two.drift, two.parent, two.session) == ("forked", None, one.session)
    assert unpack_ids(two.prompt_ids) == engine.requests[1]["token_ids"]
    assert two.messages == history
    assert [state.turn for state in await proxy.followed()] == [one.turn]


async def test_a_leaving_client_aborts_the_engine_and_the_turn_says_so(
    ask: Ask, proxy: Any, engine: Any, encode: Encode
) -> None:
    sampled = engine.say(encode("Paris is the capital."), hold=asyncio.Event(), hold_after=3)
    stream = await ask(proxy, [QUESTION], stream=True)
    async for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    await stream.response.aclose()
    await asyncio.wait_for(engine.aborted.wait(), 5)
    turn = await proxy.next_turn()
    assert turn.finish == "aborted"
    assert not turn.exact
    assert unpack_ids(turn.response_ids) == sampled[: len(unpack_ids(turn.response_ids))]
    assert len(unpack_ids(turn.response_ids)) <= 3


async def test_a_client_that_leaves_before_the_first_token_aborts_too(
    ask: Ask, proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say(encode("Paris."), hold=asyncio.Event(), hold_after=1)
    asking = asyncio.create_task(ask(proxy, [QUESTION]))
    await asyncio.wait_for(engine.asked.wait(), 5)
    asking.cancel()
    await asyncio.wait_for(engine.aborted.wait(), 5)
    assert (await proxy.next_turn()).finish == "aborted"


async def test_a_long_conversation_is_rendered_beside_the_loop_with_the_same_tokens(
    ask: Ask, start_proxy: Any, engine: Any, encode: Encode
) -> None:
    for _ in range(2):
        engine.say(encode("Paris."))
    async with start_proxy([engine.url], thread_chars=1) as beside, start_proxy([engine.url], name="b") as inside:
        await ask(beside, [QUESTION])
        await ask(inside, [QUESTION])
    assert engine.requests[0]["token_ids"] == engine.requests[1]["token_ids"]
