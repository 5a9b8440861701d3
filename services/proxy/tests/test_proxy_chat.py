"""The proxy as a user meets it: the openai SDK, a real socket, and what ends up on the bus."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from drivetrain.common.events import Span
from drivetrain.common.tokens import unpack_ids, unpack_logprobs
from drivetrain.proxy.prompts.templates import Template

Encode = Callable[[str], list[int]]
Ask = Callable[..., Any]
QUESTION = {"role": "user", "content": "The capital of France?"}
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "weather", "description": "", "parameters": WEATHER}}


def client(proxy: Any, path: str = "/v1") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=proxy.url + path, api_key="any", max_retries=0)


@pytest.fixture
async def ask() -> AsyncIterator[Ask]:
    """Ask a proxy through the SDK; connections stay open until the test ends."""
    async with AsyncExitStack() as stack:

        async def call(proxy: Any, messages: list[Any], path: str = "/v1", **options: Any) -> Any:
            sdk = await stack.enter_async_context(client(proxy, path))
            return await sdk.chat.completions.create(model="default", messages=messages, **options)

        yield call


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


async def test_a_long_conversation_is_rendered_beside_the_loop_with_the_same_tokens(
    ask: Ask, start_proxy: Any, engine: Any, encode: Encode
) -> None:
    for _ in range(2):
        engine.say(encode("Paris."))
    async with start_proxy([engine.url], thread_chars=1) as beside, start_proxy([engine.url], name="b") as inside:
        await ask(beside, [QUESTION])
        await ask(inside, [QUESTION])
    assert engine.requests[0]["token_ids"] == engine.requests[1]["token_ids"]


@pytest.mark.parametrize(
    ("change", "status", "param", "words"),
    [
        ({"model": "gpt"}, 404, "model", "default"),
        ({"messages": []}, 400, "messages", "length"),
        ({"n": 17}, 400, "n", "16"),
        ({"max_tokens": -1}, 400, "max_tokens", ">= 1"),
        ({"temperature": 3}, 400, "temperature", "2"),
        ({"top_logprobs": 3}, 400, "top_logprobs", "needs logprobs"),
        ({"tool_choice": "required"}, 400, "tool_choice", "required"),
        ({"response_format": {"type": "grammar"}}, 400, "response_format.type", "grammar"),
        ({"audio": {"voice": "x"}}, 400, "audio", "not supported"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, 400, "messages[0].role", "wizard"),
        ({"messages": [{"role": "user"}]}, 400, "messages[0].content", "content"),
        ({"messages": [{"role": "tool", "tool_call_id": "1", "content": "x"}]}, 400, "messages[0]", "tool_calls"),
        ({"messages": [{"role": "user", "content": "Paris " * 2000}]}, 400, "messages", "maximum context length"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(
    proxy: Any, change: dict[str, Any], status: int, param: str, words: str
) -> None:
    body = {"model": "default", "messages": [QUESTION]} | change
    with pytest.raises(openai.APIStatusError) as caught:
        async with client(proxy) as sdk:
            await sdk.post("/chat/completions", body=body, cast_to=object)
    error: Any = caught.value.body
    assert caught.value.status_code == status
    assert error["param"] == param
    assert words in error["message"]
    assert await proxy.events() == []


async def test_a_prompt_that_is_too_long_has_the_code_that_harnesses_know(ask: Ask, proxy: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(proxy, [{"role": "user", "content": "Paris " * 2000}])
    assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"model": "\xff"}', b"[" * 100_000, b'{"model": 1}'])
async def test_bodies_that_are_no_requests_are_refused(proxy: Any, body: bytes) -> None:
    async with client(proxy) as sdk:
        answer = await sdk._client.post(proxy.url + "/v1/chat/completions", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_a_body_over_the_limit_is_refused(proxy: Any) -> None:
    async with client(proxy) as sdk:
        answer = await sdk._client.post(proxy.url + "/v1/chat/completions", content=b" " * 100_001)
    assert answer.status_code == 413


async def test_unknown_paths_are_a_clean_404(proxy: Any) -> None:
    async with client(proxy) as sdk:
        answer = await sdk._client.get(proxy.url + "/api/tags")
        models = await sdk.models.list()
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"
    assert [model.id for model in models.data] == ["default"]
