"""Gemini's dialect as its SDK meets it: replies, streams, functions, thoughts, counts, and errors in Google's shape."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import errors, types

from drivetrain.common.keys import KeyEntry, hash_of, new_key, write_keys
from tests.proxy_served import Proxy

Encode = Callable[[str], list[int]]
WEATHER = {"name": "weather", "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
GENERATE = "/v1beta/models/default:generateContent"
STREAM = "/v1beta/models/default:streamGenerateContent"


@pytest.fixture
def sdk(proxy: Proxy) -> Any:
    return genai.Client(api_key="any", http_options=types.HttpOptions(base_url=proxy.url)).aio.models


def said(text: str) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def shows(part: dict[str, Any]) -> dict[str, Any]:
    """A conversation in which the result of a call shows something."""
    call = {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}
    result = {"functionResponse": {"name": "f", "response": {}, "parts": [part]}}
    return {"contents": [{"parts": [{"text": "Hi"}]}, call, {"parts": [{"text": "Look"}, result]}]}


async def post(proxy: Proxy, path: str = GENERATE, **body: Any) -> httpx.Response:
    async with httpx.AsyncClient() as http:
        return await http.post(proxy.url + path, json=said("The capital of France?") | body)


async def test_a_reply_is_a_candidate_with_true_usage(sdk: Any, proxy: Proxy, engine: Any, encode: Encode) -> None:
    sampled = engine.say(encode("Paris."))
    config = types.GenerateContentConfig(system_instruction="Be brief.", temperature=0.5, max_output_tokens=40)
    reply = await sdk.generate_content(model="default", contents="The capital of France?", config=config)
    assert (reply.text, reply.candidates[0].finish_reason, reply.model_version) == ("Paris.", "STOP", "default")
    prompt, usage = len(engine.requests[0]["token_ids"]), reply.usage_metadata
    assert (usage.prompt_token_count, usage.candidates_token_count) == (prompt, len(sampled))
    (turn,) = await proxy.recorded()
    assert reply.response_id == turn.turn
    assert turn.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "The capital of France?"},
    ]
    assert (turn.sampling.temperature, turn.sampling.max_tokens) == (0.5, 40)


async def test_a_stream_brings_thoughts_text_and_calls_as_they_come(sdk: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("<think>\nFrance, so\n</think>\n\nParis." + CALL))
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[WEATHER])])
    stream = await sdk.generate_content_stream(model="default", contents="Hi", config=config)
    chunks = [chunk async for chunk in stream]
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or []]
    assert "".join(part.text for part in parts if part.thought).strip() == "France, so"
    assert "".join(part.text for part in parts if part.text and not part.thought) == "Paris."
    assert [(part.function_call.name, part.function_call.args) for part in parts if part.function_call] == [
        ("weather", {"city": "Zürich"})
    ]
    assert len(chunks) > 3
    assert chunks[-1].candidates[0].finish_reason == "STOP"
    assert chunks[-1].usage_metadata.total_token_count > 0


async def test_a_stream_without_events_is_an_array(proxy: Proxy, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris is it."))
    answer = await post(proxy, STREAM)
    assert answer.headers["content-type"] == "application/json"
    parts = [part for chunk in answer.json() for part in chunk["candidates"][0]["content"]["parts"]]
    assert "".join(part["text"] for part in parts) == "Paris is it."
    assert answer.json()[-1]["candidates"][0]["finishReason"] == "STOP"


async def test_functions_are_offered_with_json_schemas(proxy: Proxy, engine: Any, encode: Encode) -> None:
    engine.say(encode("Hello."))
    plain = {"name": "plain", "parametersJsonSchema": {"type": "object", "properties": {"type": {"type": "string"}}}}
    own = {
        "name": "own",
        "parameters": {"type": "OBJECT", "properties": {"type": {"type": "STRING", "nullable": True}}},
    }
    assert (await post(proxy, tools=[{"functionDeclarations": [plain, own]}])).status_code == 200
    (turn,) = await proxy.recorded()
    assert [tool["function"]["parameters"]["properties"] for tool in turn.tools] == [
        {"type": {"type": "string"}},
        {"type": {"type": ["string", "null"]}},
    ]


async def test_tokens_are_counted_and_models_listed(sdk: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris."))
    reply = await sdk.generate_content(model="default", contents="Hello there")
    counted = await sdk.count_tokens(model="default", contents="Hello there")
    assert counted.total_tokens == reply.usage_metadata.prompt_token_count
    assert [model.name async for model in await sdk.list()] == ["models/default"]
    assert (await sdk.get(model="default")).display_name == "default"


async def test_what_is_not_there_is_not_found_and_a_key_may_stand_in_the_address(proxy: Proxy) -> None:
    async with httpx.AsyncClient() as http:
        listed = await http.get(f"{proxy.url}/v1beta/models?key=any")
        missing = await http.post(f"{proxy.url}/v1beta/models/default:embedContent?key=any", json={})
    assert [model["name"] for model in listed.json()["models"]] == ["models/default"]
    assert (missing.status_code, missing.json()["error"]["status"]) == (404, "NOT_FOUND")


async def test_candidates_are_siblings_and_logprobs_those_of_the_engine(sdk: Any, engine: Any, encode: Encode) -> None:
    for _ in range(2):
        ids = engine.say(encode("Paris."))
    config = types.GenerateContentConfig(candidate_count=2, response_logprobs=True)
    reply = await sdk.generate_content(model="default", contents="Hi", config=config)
    assert [candidate.index for candidate in reply.candidates] == [0, 1]
    chosen = reply.candidates[1].logprobs_result.chosen_candidates
    assert [row.token_id for row in chosen] == ids


async def test_a_key_may_stand_in_the_header_or_the_query(
    start_proxy: Any, engine: Any, encode: Encode, tmp_path: Path
) -> None:
    engine.say_always(encode("Paris."))
    key, key_id = new_key()
    (tmp_path / "keys.toml").write_text(write_keys({key_id: KeyEntry(hash=hash_of(key))}))
    async with start_proxy([engine.url], keys=tmp_path / "keys.toml") as proxy:
        assert (await post(proxy)).json()["error"]["status"] == "UNAUTHENTICATED"
        assert (await post(proxy, f"{GENERATE}?key={key}")).status_code == 200
        async with httpx.AsyncClient(headers={"x-goog-api-key": key}) as http:
            assert (await http.post(proxy.url + GENERATE, json=said("Hi"))).status_code == 200


async def test_a_refusal_is_the_sdks_own_error(sdk: Any) -> None:
    with pytest.raises(errors.ClientError) as caught:
        await sdk.generate_content(model="other", contents="Hi")
    assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")
    with pytest.raises(errors.ClientError) as caught:
        await sdk.generate_content(model="default", contents="Paris " * 3000)
    assert "exceeds the maximum number of tokens allowed (2000)" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"contents": []}, "contents"),
        ({"contents": [{"role": "wizard", "parts": [{"text": "x"}]}]}, "contents[0].role"),
        ({"contents": [{"role": "user", "parts": []}]}, "contents[0]: there is nothing in it"),
        ({"contents": [{"role": "user", "parts": [{}]}]}, "contents[0].parts[0]: this part says nothing"),
        ({"contents": [{"role": "model", "parts": [{"text": "x"}]}]}, "the last content must be the user's"),
        (
            {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": {}}}]}]},
            "no earlier functionCall is called 'f'",
        ),
        ({"contents": [{"parts": [{"fileData": {"fileUri": "gs://x"}}]}]}, "as inlineData"),
        (
            {"contents": [{"parts": [{"inlineData": {"mimeType": "audio/mp3", "data": "AA=="}}]}]},
            "only images are read",
        ),
        ({"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "no!"}}]}]}, "inlineData.data"),
        (shows({"fileData": {"fileUri": "gs://x"}}), "parts[1].functionResponse.parts[0]"),
        (shows({"inlineData": {"mimeType": "audio/mp3", "data": "AA=="}}), "only images are read"),
        ({"generationConfig": {"maxOutputTokens": -1}}, "generationConfig.maxOutputTokens"),
        ({"generationConfig": {"speechConfig": {}}}, "speechConfig"),
        ({"generationConfig": {"responseModalities": ["AUDIO"]}}, "only text is produced"),
        ({"generationConfig": {"responseSchema": {"type": "OBJECT"}}}, "needs responseMimeType"),
        ({"tools": [{"googleSearch": {}}]}, "googleSearch: no server runs tools here"),
        ({"tools": [{"functionDeclarations": [{"description": "x"}]}]}, "tools[0].functionDeclarations"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "needs functionDeclarations"),
        ({"cachedContent": "cachedContents/1"}, "cachedContent"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(proxy: Proxy, body: dict[str, Any], said: str) -> None:
    answer = await post(proxy, **body)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert said in error["message"]


async def test_a_stream_that_breaks_ends_with_an_error(proxy: Proxy, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris is the capital."), die_after=4)
    last = (await post(proxy, f"{STREAM}?alt=sse")).text.strip().split("\n\n")[-1]
    assert json.loads(last.removeprefix("data: "))["error"]["status"] == "UNAVAILABLE"


async def test_an_image_is_shown_to_models_that_read_them_alone(proxy: Proxy) -> None:
    data = base64.b64encode(b"\x89PNG not one").decode()
    shown = {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": data}}]}]}
    answer = await post(proxy, **shown)
    assert answer.status_code == 400
    assert "image" in answer.json()["error"]["message"]
