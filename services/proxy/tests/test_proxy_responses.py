"""OpenAI Responses as its SDK meets it: replies, streams, tools, reasoning, and errors in OpenAI's shape."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, BadRequestError

Encode = Callable[[str], list[int]]
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
THINKING = "<think>\nFrance, so\n</think>\n\nParis."
SEALED = ["reasoning.encrypted_content"]


@pytest.fixture
async def sdk(proxy: Any) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="any", max_retries=0) as client:
        yield client


async def ask(sdk: AsyncOpenAI, given: Any = "The capital of France?", **options: Any) -> Any:
    return await sdk.responses.create(model="default", input=given, **options)


async def test_a_reply_is_a_response_with_true_usage(sdk: AsyncOpenAI, proxy: Any, engine: Any, encode: Encode) -> None:
    sampled = engine.say(encode("Paris."))
    reply = await ask(sdk, instructions="Be brief.", temperature=0.5)
    assert (reply.output_text, reply.status, reply.model) == ("Paris.", "completed", "default")
    assert (reply.instructions, reply.temperature) == ("Be brief.", 0.5)
    prompt = len(engine.requests[0]["token_ids"])
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (prompt, len(sampled))
    assert reply.usage.input_tokens_details.cached_tokens == 3
    (turn,) = await proxy.recorded()
    assert reply.id == f"resp_{turn.turn}"
    assert turn.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "The capital of France?"},
    ]
    assert turn.sampling.temperature == 0.5


async def test_a_stream_has_its_events_in_order(sdk: AsyncOpenAI, engine: Any, encode: Encode) -> None:
    engine.say(encode(THINKING + CALL))
    events = [event async for event in await ask(sdk, stream=True, tools=[WEATHER])]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert list(dict.fromkeys((event.type, getattr(event, "output_index", None)) for event in events)) == [
        ("response.created", None),
        ("response.in_progress", None),
        ("response.output_item.added", 0),
        ("response.content_part.added", 0),
        ("response.reasoning_text.delta", 0),
        ("response.reasoning_text.done", 0),
        ("response.content_part.done", 0),
        ("response.output_item.done", 0),
        ("response.output_item.added", 1),
        ("response.content_part.added", 1),
        ("response.output_text.delta", 1),
        ("response.output_text.done", 1),
        ("response.content_part.done", 1),
        ("response.output_item.done", 1),
        ("response.output_item.added", 2),
        ("response.function_call_arguments.delta", 2),
        ("response.function_call_arguments.done", 2),
        ("response.output_item.done", 2),
        ("response.completed", None),
    ]


async def test_the_deltas_of_a_stream_make_its_final_response(sdk: AsyncOpenAI, engine: Any, encode: Encode) -> None:
    engine.say(encode(THINKING + CALL))
    async with sdk.responses.stream(model="default", input="Hi", tools=[WEATHER]) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    deltas = {
        kind: "".join(event.delta for event in events if event.type == f"response.{kind}.delta")
        for kind in ("reasoning_text", "output_text", "function_call_arguments")
    }
    reasoning, message, call = final.output
    assert (reasoning.content[0].text, message.content[0].text) == (deltas["reasoning_text"], deltas["output_text"])
    assert (deltas["reasoning_text"].strip(), deltas["output_text"]) == ("France, so", "Paris.")
    assert call.arguments == deltas["function_call_arguments"]
    assert json.loads(call.arguments) == {"city": "Zürich"}


async def test_a_stream_and_a_document_hold_the_same_items(sdk: AsyncOpenAI, engine: Any, encode: Encode) -> None:
    def plain(item: Any) -> dict[str, Any]:
        return {name: value for name, value in item.to_dict().items() if name not in ("id", "call_id")}

    engine.say(encode(THINKING + CALL))
    engine.say(encode(THINKING + CALL))
    whole = await ask(sdk, tools=[WEATHER], include=SEALED)
    events = [event async for event in await ask(sdk, stream=True, tools=[WEATHER], include=SEALED)]
    assert [plain(item) for item in events[-1].response.output] == [plain(item) for item in whole.output]
    assert whole.output[0].encrypted_content


async def test_a_reply_that_was_cut_by_its_limit_is_incomplete(sdk: AsyncOpenAI, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris is"), finish="length")
    reply = await ask(sdk, max_output_tokens=2)
    assert (reply.status, reply.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    engine.say(encode("Paris is"), finish="length")
    events = [event async for event in await ask(sdk, stream=True, max_output_tokens=2)]
    assert (events[-1].type, events[-1].response.status) == ("response.incomplete", "incomplete")


async def test_logprobs_are_those_of_the_sampled_tokens(sdk: AsyncOpenAI, engine: Any, encode: Encode) -> None:
    ids = engine.say(encode("Paris."))
    reply = await ask(sdk, include=["message.output_text.logprobs"])
    told = reply.output[0].content[0].logprobs
    assert len(told) == len(ids)
    assert "".join(row.token for row in told).startswith("Paris.")
    with pytest.raises(BadRequestError, match="top_logprobs needs include"):
        await ask(sdk, top_logprobs=3)


async def test_feedback_finds_the_response(sdk: AsyncOpenAI, proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris."))
    reply = await ask(sdk)
    async with httpx.AsyncClient() as http:
        given = await http.post(f"{proxy.url}/v1/feedback", json={"response": reply.id, "thumb": "up"})
    assert given.status_code == 200
    assert f"resp_{given.json()['turn']}" == reply.id


@pytest.mark.parametrize(
    ("options", "param", "said"),
    [
        ({"input": []}, "input", "nothing to answer"),
        ({"input": [{"type": "computer_call", "id": "c"}]}, "input[0].type", "computer_call"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role", "robot"),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
            "input[0].call_id",
            "no earlier call",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools", "web_search: no server runs tools here"),
        ({"tools": [{"type": "teleport"}]}, "tools[0].type", "'teleport' is not known"),
        ({"tools": [{"type": "function"}]}, "tools[0]", "name"),
        ({"tool_choice": "required"}, "tool_choice", "needs tools"),
        ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice", "no tool 'f'"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice", "say none, auto"),
        ({"background": True}, "background", "read its stream"),
        ({"conversation": "c"}, "conversation", "send the history"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "no earlier response"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema", "needs a schema"),
        ({"max_output_tokens": -1}, "max_output_tokens", ">= 1"),
        ({"nonsense": 1}, "nonsense", "not supported"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:text/plain,x"}]}]},
            "input[0].content[0].image_url",
            "base64",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
            "input[0].content[0].type",
            "say other things in words",
        ),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(
    proxy: Any, options: dict[str, Any], param: str, said: str
) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{proxy.url}/v1/responses", json={"model": "default", "input": "Hi"} | options)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert said in error["message"]


async def test_an_upgrade_to_websocket_is_declined_so_that_clients_post(proxy: Any) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{proxy.url}/v1/responses", headers=headers | {"Sec-WebSocket-Key": "AAAA"})
    assert answer.status_code == 426


@pytest.mark.parametrize("path", ["/props", "/api/tags", "/v1/props", "/version", "/api/v1/models", "/v1/responses/x"])
async def test_a_probe_is_a_clean_404(proxy: Any, path: str) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{proxy.url}{path}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
