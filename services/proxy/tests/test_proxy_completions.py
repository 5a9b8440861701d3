"""OpenAI beyond the plain chat: completions of text and token ids, siblings, logprobs and token ids, forms."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from drivetrain.common.tokens import unpack_ids
from drivetrain.proxy.prompts.templates import Template

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
OTHER = {"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
async def sdk(proxy: Any) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=proxy.url + "/v1", api_key="any", max_retries=0) as client:
        yield client


async def chat(sdk: AsyncOpenAI, **options: Any) -> Any:
    return await sdk.chat.completions.create(model="default", messages=[QUESTION], **options)


async def test_a_text_is_continued_as_it_is(
    sdk: AsyncOpenAI, proxy: Any, engine: Any, encode: Encode, template: Template
) -> None:
    sampled = engine.say(encode("<think> Paris."))
    reply = await sdk.completions.create(model="default", prompt="The capital of France is")
    assert (reply.choices[0].text, reply.choices[0].finish_reason) == ("<think> Paris.", "stop")
    sent = engine.requests[0]
    assert template.tokenizer.decode(sent["token_ids"]) == "The capital of France is"
    assert sent["sampling_params"]["max_tokens"] == 16
    (turn,) = await proxy.recorded()
    assert reply.id == f"cmpl-{turn.turn}"
    assert unpack_ids(turn.prompt_ids) == sent["token_ids"]
    assert unpack_ids(turn.response_ids) == sampled
    assert reply.usage.prompt_tokens == len(sent["token_ids"])


async def test_token_ids_are_sent_untouched(sdk: AsyncOpenAI, proxy: Any, engine: Any, encode: Encode) -> None:
    prompt = [*encode("P")[:-1], *encode("aris")[:-1]]
    engine.say(encode(" is"))
    reply = await sdk.completions.create(
        model="default", prompt=prompt, logprobs=0, extra_body={"return_token_ids": True}
    )
    assert engine.requests[0]["token_ids"] == prompt
    choice = reply.choices[0]
    assert (choice.prompt_token_ids, choice.token_ids) == (prompt, encode(" is"))
    assert choice.logprobs.token_logprobs == [-0.25 * (1 + token % 8) for token in encode(" is")]
    assert "".join(choice.logprobs.tokens) == " is<|im_end|>"
    assert choice.logprobs.text_offset[0] == 0


async def test_a_continued_text_streams_and_never_becomes_a_conversation(
    sdk: AsyncOpenAI, proxy: Any, engine: Any, encode: Encode
) -> None:
    for text in (" is Paris.", "Yes."):
        engine.say(encode(text))
    prompt = QUESTION["content"]
    stream = await sdk.completions.create(
        model="default", prompt=prompt, stream=True, max_tokens=50, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == " is Paris."
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage.completion_tokens == len(encode(" is Paris."))
    history = [QUESTION, {"role": "assistant", "content": " is Paris."}, {"role": "user", "content": "Sure?"}]
    await sdk.chat.completions.create(model="default", messages=history)
    one, two = await proxy.recorded()
    assert two.parent is None
    assert two.session != one.session


async def test_siblings_are_turns_of_their_own_with_seeds_of_their_own(
    sdk: AsyncOpenAI, proxy: Any, engine: Any, encode: Encode
) -> None:
    texts = ["Paris.", "Paris!", "Lyon?"]
    for text in texts:
        engine.say(encode(text))
    reply = await chat(sdk, n=3, seed=7)
    assert sorted(choice.message.content for choice in reply.choices) == sorted(texts)
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    assert sorted(request["sampling_params"]["seed"] for request in engine.requests) == [7, 8, 9]
    turns = await proxy.recorded()
    assert len({turn.turn for turn in turns}) == 3
    assert [turn.parent for turn in turns] == [None] * 3
    prompt = len(engine.requests[0]["token_ids"])
    assert reply.usage.prompt_tokens == prompt
    assert reply.usage.completion_tokens == sum(len(encode(text)) for text in texts)


async def test_siblings_stream_side_by_side(sdk: AsyncOpenAI, engine: Any, encode: Encode) -> None:
    hold = asyncio.Event()
    for text in ("Paris is it.", "Lyon is it."):
        engine.say(encode(text), hold=hold)
    texts, finished = ["", ""], []
    async for chunk in await chat(sdk, n=2, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            if choice.finish_reason:
                finished.append(choice.index)
        if all(texts):
            hold.set()
    assert sorted(texts) == ["Lyon is it.", "Paris is it."]
    assert sorted(finished) == [0, 1]


async def test_one_refused_sibling_refuses_the_request(sdk: AsyncOpenAI, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris."))
    engine.say([], status=400)
    with pytest.raises(openai.BadRequestError, match="the stub refuses"):
        await chat(sdk, n=2)


async def test_a_required_call_is_held_to_by_the_engine(
    sdk: AsyncOpenAI, proxy: Any, engine: Any, encode: Encode
) -> None:
    call = '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>'
    for _ in range(2):
        engine.say(encode(call))
    named = {"type": "function", "function": {"name": "weather"}}
    await chat(sdk, tools=[TOOL, OTHER], tool_choice="required")
    reply = await chat(sdk, tools=[TOOL, OTHER], tool_choice=named)
    assert reply.choices[0].message.tool_calls[0].function.name == "weather"
    tags = [
        json.loads(request["sampling_params"]["structured_outputs"]["structural_tag"])["format"]["tags"]
        for request in engine.requests
    ]
    assert [[tag["begin"].split('"')[3] for tag in each] for each in tags] == [["weather", "search"], ["weather"]]
    assert [turn.inexact_reason for turn in await proxy.recorded()] == ["grammar", "grammar"]


@pytest.mark.parametrize(
    ("form", "parameter"),
    [
        ({"type": "json_object"}, {"json_object": True}),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "null"}}}, {"json": {"type": "null"}}),
    ],
)
async def test_a_form_of_the_reply_is_held_to_by_the_engine(
    sdk: AsyncOpenAI, proxy: Any, engine: Any, encode: Encode, form: Any, parameter: Any
) -> None:
    engine.say(encode("{}"))
    await chat(sdk, response_format=form)
    assert engine.requests[0]["sampling_params"]["structured_outputs"] == parameter
    (turn,) = await proxy.recorded()
    assert (turn.exact, turn.inexact_reason) == (False, "grammar")


@pytest.mark.parametrize(
    ("change", "param", "words"),
    [
        ({"echo": True}, "echo", "not repeated"),
        ({"suffix": "x"}, "suffix", "inserted"),
        ({"prompt": ["a", "b"]}, "prompt[0]", ""),
        ({"prompt": ""}, "prompt", "empty"),
        ({"prompt": []}, "prompt", "empty"),
        ({"prompt": [-1]}, "prompt[0]", ">= 0"),
        ({"prompt": [10**6]}, "prompt", "token ids must be"),
        ({"prompt": "Paris " * 2000}, "messages", "maximum context length"),
        ({"logprobs": 21}, "logprobs", "<= 20"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "token ids"),
    ],
)
async def test_what_completions_cannot_honour_is_refused_by_name(
    sdk: AsyncOpenAI, change: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.post("/completions", body={"model": "default", "prompt": "x"} | change, cast_to=object)
    error: Any = caught.value.body
    assert error["param"] == param
    assert words in error["message"]


async def test_siblings_begin_one_session(sdk: AsyncOpenAI, proxy: Any, engine: Any, encode: Encode) -> None:
    for text in ("Paris.", "Lyon?", "Yes."):
        engine.say(encode(text))
    reply = await chat(sdk, n=2)
    chosen = {"role": "assistant", "content": reply.choices[1].message.content}
    again = {"role": "user", "content": "Sure?"}
    await sdk.chat.completions.create(model="default", messages=[QUESTION, chosen, again])
    turns = await proxy.recorded()
    assert len({turn.session for turn in turns}) == 1
    parents = [turn.reply["content"] for turn in turns if turn.turn == turns[-1].parent]
    assert parents == [chosen["content"]]
