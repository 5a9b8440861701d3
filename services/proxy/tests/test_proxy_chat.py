"""The proxy as a user meets it: the openai SDK, a real socket, and what ends up on the bus."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from drivetrain.common.events import Span
from drivetrain.common.tokens import unpack_ids, unpack_logprobs

Encode = Callable[[str], list[int]]
Ask = Callable[..., Any]
QUESTION = {"role": "user", "content": "The capital of France?"}
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "weather", "description": "", "parameters": WEATHER}}


async def test_a_reply_and_everything_that_was_sampled_is_recorded(
    ask: Ask, proxy: Any, engine: Any, encode: Encode
) -> None:
    sampled = engine.say(encode("Paris."), versions=[("3", 0, 1), ("4", 1, len(encode("Paris.")))])
    reply = await ask(proxy, [QUESTION])
    assert reply.choices[0].message.content == "Paris."
    assert reply.choices[0].finish_reason == "stop"
    (turn,) = await proxy.recorded()
    assert unpack_ids(turn.response_ids) == sampled
    assert unpack_logprobs(turn.logprobs) == [-0.25 * (1 + token % 8) for token in sampled]
    assert turn.versions == [Span(0, 1, 3), Span(1, len(sampled), 4)]
    assert unpack_ids(turn.prompt_ids) == engine.requests[0]["token_ids"]
    assert (turn.exact, turn.drift, turn.parent, turn.finish) == (True, "root", None, "stop")
    assert reply.id == f"chatcmpl-{turn.turn}"
    assert turn.messages == [QUESTION]
    assert turn.reply == {"role": "assistant", "content": "Paris."}


async def test_usage_is_true(ask: Ask, proxy: Any, engine: Any, encode: Encode) -> None:
    sampled = engine.say(encode("Paris."))
    usage = (await ask(proxy, [QUESTION])).usage
    prompt = len(engine.requests[0]["token_ids"])
    assert (usage.prompt_tokens, usage.completion_tokens) == (prompt, len(sampled))
    assert usage.total_tokens == prompt + len(sampled)
    assert usage.prompt_tokens_details.cached_tokens == 3


async def test_the_stream_flows_while_the_engine_still_samples(
    ask: Ask, proxy: Any, engine: Any, encode: Encode
) -> None:
    hold = asyncio.Event()
    engine.say(encode("Paris is the capital."), hold=hold, hold_after=2)
    texts = []
    stream = await ask(proxy, [QUESTION], stream=True, stream_options={"include_usage": True})
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            texts.append(chunk.choices[0].delta.content)
            hold.set()
    assert "".join(texts) == "Paris is the capital."
    assert len(texts) > 2
    assert chunk.usage is not None
    assert chunk.choices == []


async def test_the_stream_has_the_form_that_clients_expect(ask: Ask, proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris."))
    chunks = [chunk async for chunk in await ask(proxy, [QUESTION], stream=True)]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert chunks[0].object == "chat.completion.chunk"


async def test_tool_calls_are_streamed_in_pieces_that_the_sdk_joins(
    ask: Ask, proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say(encode('Well <tool_call>\n{"name": "weather", "arguments": {"city": "Zürich 😀"}}\n</tool_call>'))
    text, name, arguments, finish = "", "", "", None
    async for chunk in await ask(proxy, [QUESTION], tools=[TOOL], stream=True):
        choice = chunk.choices[0]
        text += choice.delta.content or ""
        for call in choice.delta.tool_calls or []:
            assert call.index == 0
            name += call.function.name or ""
            arguments += call.function.arguments or ""
        finish = choice.finish_reason or finish
    assert (text, name, json.loads(arguments)) == ("Well", "weather", {"city": "Zürich 😀"})
    assert finish == "tool_calls"


async def test_tool_choice_none_offers_no_tools(ask: Ask, proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("<tool_call> is a marker"))
    reply = await ask(proxy, [QUESTION], tools=[TOOL], tool_choice="none")
    assert reply.choices[0].message.content == "<tool_call> is a marker"


async def test_sampling_that_breaks_ratios_is_answered_and_marked(
    ask: Ask, proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say(encode("Paris."))
    await ask(proxy, [QUESTION], temperature=0, top_p=0.9, presence_penalty=0.5, max_tokens=50, seed=7)
    (turn,) = await proxy.recorded()
    assert not turn.exact
    assert all(word in turn.inexact_reason for word in ("greedy", "top_p", "presence_penalty"))
    sent = engine.requests[0]["sampling_params"]
    assert (sent["temperature"], sent["top_p"], sent["presence_penalty"], sent["max_tokens"]) == (0, 0.9, 0.5, 50)
    assert turn.sampling.seed == 7
    assert turn.sampling.other == {"presence_penalty": 0.5}


async def test_versions_that_are_no_integers_make_the_turn_inexact(
    ask: Ask, proxy: Any, engine: Any, encode: Encode
) -> None:
    sampled = engine.say(encode("Paris."), versions=[("default", 0, len(encode("Paris.")))])
    await ask(proxy, [QUESTION])
    (turn,) = await proxy.recorded()
    assert not turn.exact
    assert "default" in turn.inexact_reason
    assert turn.versions == [Span(0, len(sampled), -1)]


async def test_max_tokens_is_capped_by_what_the_context_leaves(
    ask: Ask, proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say(encode("Paris."))
    await ask(proxy, [QUESTION], max_completion_tokens=1_000_000)
    request = engine.requests[0]
    assert request["sampling_params"]["max_tokens"] == 2000 - len(request["token_ids"])


async def test_stop_strings_end_the_text_but_not_the_recorded_tokens(
    ask: Ask, proxy: Any, engine: Any, encode: Encode
) -> None:
    sampled = engine.say(encode("Paris. END")[:-1])
    reply = await ask(proxy, [QUESTION], stop=["END", "unseen"])
    assert reply.choices[0].message.content == "Paris. "
    assert engine.requests[0]["sampling_params"]["stop"] == ["END", "unseen"]
    (turn,) = await proxy.recorded()
    assert unpack_ids(turn.response_ids) == sampled


async def test_reasoning_has_its_own_channel(ask: Ask, proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("<think>\nFrance, so\n</think>\n\nParis."))
    message = (await ask(proxy, [QUESTION])).choices[0].message
    assert message.content == "Paris."
    assert message.reasoning_content == "France, so"
