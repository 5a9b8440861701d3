"""Histories in Gemini's dialect: what clients send back is found again, and the recorded tokens go on."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import types

from tests.proxy_served import Proxy

Encode = Callable[[str], list[int]]
WEATHER = {"name": "weather", "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
THINKING = "<think>\nFrance, so\n</think>\n\n"
GENERATE = "/v1beta/models/default:generateContent"
TOOLS = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[WEATHER])])


@pytest.fixture
def client(proxy: Proxy) -> Any:
    return genai.Client(api_key="any", http_options=types.HttpOptions(base_url=proxy.url)).aio


async def turns(proxy: Proxy) -> list[Any]:
    return sorted(await proxy.recorded(), key=lambda turn: turn.started_at)


@pytest.mark.parametrize("named", [True, False])
async def test_a_call_comes_back_with_its_result_and_the_tokens_go_on(
    client: Any, proxy: Proxy, engine: Any, encode: Encode, named: bool
) -> None:
    sampled = engine.say(encode("I look." + CALL))
    question = types.Content(role="user", parts=[types.Part(text="Rain?")])
    first = await client.models.generate_content(model="default", contents=[question], config=TOOLS)
    reply = first.candidates[0].content
    call = next(part.function_call for part in reply.parts if part.function_call)
    if not named:
        identity, call.id = call.id, None
        assert identity
    result = types.FunctionResponse(id=call.id, name="weather", response={"output": "dry"})
    engine.say(encode("No."))
    history = [question, reply, types.Content(role="user", parts=[types.Part(function_response=result)])]
    await client.models.generate_content(model="default", contents=history, config=TOOLS)
    one, two = await turns(proxy)
    assert (two.parent, two.session) == (one.turn, one.session)
    begun = engine.requests[0]["token_ids"] + sampled
    assert engine.requests[1]["token_ids"][: len(begun)] == begun
    (followed,) = await proxy.followed()
    assert [(message["role"], message["content"]) for message in followed.messages] == [("tool", "dry")]


@pytest.mark.parametrize("streams", [False, True])
async def test_a_chat_of_the_sdk_is_one_trajectory(
    client: Any, proxy: Proxy, engine: Any, encode: Encode, streams: bool
) -> None:
    chat = client.chats.create(model="default")
    sampled = []
    for number in range(3):
        sampled.append(engine.say(encode(f"Paris is the capital, {number}. 😀")))
        if streams:
            async for _ in await chat.send_message_stream(f"Question {number}"):
                pass
        else:
            await chat.send_message(f"Question {number}")
    first, second, third = await turns(proxy)
    assert (second.parent, third.parent) == (first.turn, second.turn)
    assert {second.drift, third.drift} <= {"clean", "realigned"}
    for reply, before, after in zip(sampled, engine.requests, engine.requests[1:], strict=False):
        begun = before["token_ids"] + reply
        assert after["token_ids"][: len(begun)] == begun


@pytest.mark.parametrize("said", [THINKING + "I look." + CALL, THINKING + "Paris."])
async def test_thoughts_that_a_client_drops_come_back_in_their_signature(
    client: Any, proxy: Proxy, engine: Any, encode: Encode, said: str
) -> None:
    for _ in range(2):
        engine.say(encode(said))
    whole = await client.models.generate_content(model="default", contents="Hi", config=TOOLS)
    stream = await client.models.generate_content_stream(model="default", contents="Hi", config=TOOLS)
    streamed = [part async for chunk in stream for part in chunk.candidates[0].content.parts]
    question = types.Content(role="user", parts=[types.Part(text="Nothing that was asked before")])
    result = types.Part.from_function_response(name="weather", response={"output": "dry"})
    for parts in (whole.candidates[0].content.parts, streamed):
        kept = types.Content(role="model", parts=[part for part in parts if not part.thought])
        answer = [result] if any(part.function_call for part in parts) else [types.Part(text="Go on")]
        engine.say(encode("Yes."))
        history = [question, kept, types.Content(role="user", parts=answer)]
        await client.models.generate_content(model="default", contents=history, config=TOOLS)
        assert (await turns(proxy))[-1].messages[1]["reasoning_content"].strip() == "France, so"


async def test_a_signature_of_another_provider_says_nothing(proxy: Proxy, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris."))
    signed = [
        {"text": f"{number}", "thoughtSignature": text}
        for number, text in enumerate(("skip_thought_signature_validator", "ZHQxAAAA", "é", "CiQB4/H/Xg=="))
    ]
    contents = [{"parts": [{"text": "Hi"}]}, {"role": "model", "parts": signed}, {"parts": [{"text": "And?"}]}]
    async with httpx.AsyncClient() as http:
        assert (await http.post(proxy.url + GENERATE, json={"contents": contents})).status_code == 200
    (turn,) = await turns(proxy)
    assert turn.messages[1] == {"role": "assistant", "content": "0123"}


@pytest.mark.parametrize(
    ("said", "kind"), [({"turn_type": "side"}, "side"), ({"session_id": "mine"}, "main"), ({}, "main")]
)
async def test_the_body_may_say_who_speaks(
    proxy: Proxy, engine: Any, encode: Encode, said: dict[str, Any], kind: str
) -> None:
    engine.say(encode("Paris."))
    async with httpx.AsyncClient() as http:
        body = {"contents": [{"parts": [{"text": "Hi"}]}], **said}
        assert (await http.post(proxy.url + GENERATE, json=body)).status_code == 200
    (turn,) = await turns(proxy)
    assert turn.kind == kind


async def test_what_gemini_cli_asks_beside_its_work_is_marked(proxy: Proxy, engine: Any, encode: Encode) -> None:
    engine.say_always(encode('{"model_choice": "pro"}'))
    form = {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}}
    routed = {"contents": [{"role": "user", "parts": [{"text": "Fix it"}]}], "generationConfig": form}
    work = {**routed, "generationConfig": {}, "tools": [{"functionDeclarations": [WEATHER]}]}
    headers = {"user-agent": "GeminiCLI-tui/0.61.0/default (linux; x64; terminal)"}
    async with httpx.AsyncClient(headers=headers) as http:
        for body in (routed, work):
            assert (await http.post(proxy.url + GENERATE, json=body)).status_code == 200
    assert [turn.kind for turn in await turns(proxy)] == ["side", "main"]
