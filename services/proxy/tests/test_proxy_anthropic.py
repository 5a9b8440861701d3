"""Anthropic Messages as its SDK meets it: replies, streams, tools, thinking, counts, and errors in its own words."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from anthropic import AsyncAnthropic

from drivetrain.proxy.prompts.templates import Template

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
TOOL = {"name": "weather", "description": "", "input_schema": {"type": "object", "properties": {}}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>'


@pytest.fixture
async def sdk(proxy: Any) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=proxy.url, api_key="any", max_retries=0) as client:
        yield client


async def ask(sdk: AsyncAnthropic, messages: list[Any] | None = None, **options: Any) -> Any:
    return await sdk.messages.create(
        model="default", max_tokens=options.pop("max_tokens", 50), messages=messages or [QUESTION], **options
    )


async def post(proxy: Any, path: str = "/v1/messages", **change: Any) -> httpx.Response:
    body = {"model": "default", "max_tokens": 50, "messages": [QUESTION]} | change
    async with httpx.AsyncClient() as http:
        return await http.post(proxy.url + path, json=body, headers={"anthropic-version": "2023-06-01"})


async def test_a_reply_is_a_message_with_true_usage(
    sdk: AsyncAnthropic, proxy: Any, engine: Any, encode: Encode
) -> None:
    sampled = engine.say(encode("Paris."))
    reply = await ask(sdk)
    assert [(block.type, block.text) for block in reply.content] == [("text", "Paris.")]
    assert (reply.role, reply.model, reply.stop_reason, reply.stop_sequence) == (
        "assistant",
        "default",
        "end_turn",
        None,
    )
    prompt = len(engine.requests[0]["token_ids"])
    assert (reply.usage.input_tokens, reply.usage.cache_read_input_tokens) == (prompt - 3, 3)
    assert reply.usage.output_tokens == len(sampled)
    (turn,) = await proxy.recorded()
    assert reply.id == f"msg_{turn.turn}"
    assert turn.messages == [QUESTION]


async def test_a_stream_has_its_events_in_order(proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("<think>\nFrance, so\n</think>\n\nParis." + CALL))
    text = (await post(proxy, stream=True, tools=[TOOL])).text
    events = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    assert [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")] == [
        event["type"] for event in events
    ]
    kinds = [(event["type"], event.get("index"), event.get("delta", {}).get("type")) for event in events]
    assert list(dict.fromkeys(kinds)) == [
        ("message_start", None, None),
        ("ping", None, None),
        ("content_block_start", 0, None),
        ("content_block_delta", 0, "thinking_delta"),
        ("content_block_delta", 0, "signature_delta"),
        ("content_block_stop", 0, None),
        ("content_block_start", 1, None),
        ("content_block_delta", 1, "text_delta"),
        ("content_block_stop", 1, None),
        ("content_block_start", 2, None),
        ("content_block_delta", 2, "input_json_delta"),
        ("content_block_stop", 2, None),
        ("message_delta", None, None),
        ("message_stop", None, None),
    ]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


async def test_the_sdk_joins_the_stream_to_the_message_that_it_gets_whole(
    sdk: AsyncAnthropic, engine: Any, encode: Encode
) -> None:
    for _ in range(2):
        engine.say(encode("<think>\nFrance, so\n</think>\n\nParis." + CALL))
    whole = await ask(sdk, tools=[TOOL])
    async with sdk.messages.stream(model="default", max_tokens=50, messages=[QUESTION], tools=[TOOL]) as stream:
        streamed = await stream.get_final_message()
    thinking, text, call = streamed.content
    assert (thinking.thinking, text.text) == ("France, so", "Paris.")
    assert thinking.signature
    assert (call.name, call.input) == ("weather", {"city": "Zürich"})
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use"]
    assert (whole.content[2].input, whole.stop_reason) == (call.input, "tool_use")
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert streamed.usage.input_tokens == whole.usage.input_tokens


async def test_a_tool_loop_continues_the_recorded_tokens(
    sdk: AsyncAnthropic, proxy: Any, engine: Any, encode: Encode, template: Template
) -> None:
    sampled = engine.say(encode("I look." + CALL + "\n" + CALL))
    engine.say(encode("Rain."))
    first = await ask(sdk, tools=[TOOL])
    assert [block.type for block in first.content] == ["text", "tool_use", "tool_use"]
    echo = [block.model_dump(exclude_none=True) for block in first.content]
    results = [
        {"type": "tool_result", "tool_use_id": echo[1]["id"], "content": [{"type": "text", "text": "rain"}]},
        {"type": "tool_result", "tool_use_id": echo[2]["id"], "content": "broken", "is_error": True},
        {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}},
    ]
    history = [QUESTION, {"role": "assistant", "content": echo}, {"role": "user", "content": results}]
    await ask(sdk, history, tools=[TOOL])
    prompts = [request["token_ids"] for request in engine.requests]
    assert prompts[1][: len(prompts[0]) + len(sampled)] == prompts[0] + sampled
    one, two = await proxy.recorded()
    assert two.parent == one.turn
    assert [(m["role"], m["content"]) for m in two.messages] == [("tool", "rain"), ("tool", "broken"), ("user", "And?")]
    assert [m.get("is_error", False) for m in two.messages] == [False, True, False]


async def test_stop_sequences_say_which_one_it_was(sdk: AsyncAnthropic, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris. END")[:-1])
    reply = await ask(sdk, stop_sequences=["never", "END"])
    assert (reply.stop_reason, reply.stop_sequence, reply.content[0].text) == ("stop_sequence", "END", "Paris. ")


async def test_a_reply_that_is_cut_by_max_tokens_says_so(sdk: AsyncAnthropic, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris.")[:2], finish="length")
    assert (await ask(sdk, max_tokens=2)).stop_reason == "max_tokens"


async def test_required_tools_and_schemas_are_held_to_by_the_engine_and_recorded_as_inexact(
    sdk: AsyncAnthropic, proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say(encode(CALL))
    engine.say(encode("{}"))
    await ask(sdk, tools=[TOOL], tool_choice={"type": "tool", "name": "weather"})
    schema = {"type": "object", "properties": {}}
    await ask(sdk, output_config={"format": {"type": "json_schema", "schema": schema}})
    call, text = (request["sampling_params"]["structured_outputs"] for request in engine.requests)
    (tag,) = json.loads(call["structural_tag"])["format"]["tags"]
    assert tag["begin"] == '<tool_call>\n{"name": "weather", "arguments": '
    assert tag["content"]["json_schema"] == TOOL["input_schema"]
    assert text == {"json": schema}
    assert [turn.inexact_reason for turn in await proxy.recorded()] == ["grammar", "grammar"]
