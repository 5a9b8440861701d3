"""What the chat endpoint refuses, as the openai SDK raises it: by name, with the code that harnesses know."""

from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

Ask = Callable[..., Any]
QUESTION = {"role": "user", "content": "The capital of France?"}


def client(proxy: Any, path: str = "/v1") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=proxy.url + path, api_key="any", max_retries=0)


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
