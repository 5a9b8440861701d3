"""Bad input, and an engine that dies, in every dialect's own shape; and what the documents say of the dialects."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
GOOD = {
    "/v1/chat/completions": {"model": "default", "messages": [QUESTION]},
    "/v1/responses": {"model": "default", "input": [QUESTION]},
    "/v1/completions": {"model": "default", "prompt": "The capital"},
    "/v1/messages": {"model": "default", "messages": [QUESTION], "max_tokens": 50},
}


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"x": value}
    return value


def error_of(path: str, answer: httpx.Response) -> dict[str, Any]:
    """The error in a refusal, after a look at its shape."""
    body = answer.json()
    if path == "/v1/messages":
        assert (set(body), body["type"], set(body["error"])) == ({"type", "error"}, "error", {"type", "message"})
    else:
        assert set(body["error"]) == {"message", "type", "param", "code"}
    return dict(body["error"])


async def send(proxy: Any, path: str, **body: Any) -> httpx.Response:
    async with httpx.AsyncClient(timeout=20) as http:
        return await http.post(proxy.url + path, **body)


BROKEN = {
    "/v1/messages": 'event: error\ndata: {"type":"error"',
    "/v1/responses": 'event: response.failed\ndata: {"type":"response.failed"',
}
"""How the last event begins of a stream that was cut; an error alone in the other dialects."""


@pytest.fixture(params=sorted(GOOD))
def path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"", b'{"model": "\xff"}', b"[" * 100_000, b'{"model": "\\ud800"}', b'{"a": 1e999}', b"null"]
)
async def test_bodies_that_are_no_requests_are_refused_in_the_dialects_shape(
    proxy: Any, path: str, body: bytes
) -> None:
    answer = await send(proxy, path, content=body)
    assert answer.status_code == 400
    assert error_of(path, answer)["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("change", "status", "kind", "words"),
    [
        ({"model": "gpt"}, 404, "not_found_error", "default"),
        ({"model": 1}, 400, "invalid_request_error", "model"),
        ({"max_tokens": -1}, 400, "invalid_request_error", "max_tokens"),
        ({"max_tokens": 1.5}, 400, "invalid_request_error", "max_tokens"),
        ({"temperature": "hot"}, 400, "invalid_request_error", "temperature"),
        ({"no_such_field": 1}, 400, "invalid_request_error", "no_such_field"),
    ],
)
async def test_fields_at_fault_are_named(
    proxy: Any, path: str, change: dict[str, Any], status: int, kind: str, words: str
) -> None:
    answer = await send(proxy, path, json=GOOD[path] | change)
    error = error_of(path, answer)
    assert answer.status_code == status
    assert error["type"] == (kind if path == "/v1/messages" else "invalid_request_error")
    assert words in error["message"]


@pytest.mark.parametrize("levels", [70, 900])
async def test_deep_nesting_is_refused_or_answered_but_never_fails(
    proxy: Any, engine: Any, encode: Encode, levels: int
) -> None:
    engine.say(encode("Paris."))
    tool = {"type": "function", "function": {"name": "x", "parameters": deep(levels)}}
    answer = await send(proxy, "/v1/chat/completions", json=GOOD["/v1/chat/completions"] | {"tools": [tool]})
    assert answer.status_code in (200, 400), answer.text


@pytest.mark.parametrize("text", ["\\ud800", "\\u0000", "\\uffff"])
async def test_strange_characters_are_refused_or_answered(
    proxy: Any, engine: Any, encode: Encode, path: str, text: str
) -> None:
    engine.say(encode("Paris."))
    field = '"prompt": "%s"' if path == "/v1/completions" else '"messages": [{"role": "user", "content": "%s"}]'
    body = '{"model": "default", "max_tokens": 5, ' + field % text + "}"
    answer = await send(proxy, path, content=body.encode())
    assert answer.status_code in (200, 400), answer.text


async def test_a_prompt_that_is_too_long_is_told_in_the_words_that_make_harnesses_compact(proxy: Any) -> None:
    long = [{"role": "user", "content": "Paris " * 2000}]
    chat = await send(proxy, "/v1/chat/completions", json=GOOD["/v1/chat/completions"] | {"messages": long})
    assert error_of("/v1/chat/completions", chat)["code"] == "context_length_exceeded"
    assert "maximum context length is 2000 tokens" in chat.text
    messages = await send(proxy, "/v1/messages", json=GOOD["/v1/messages"] | {"messages": long})
    assert messages.status_code == 400
    assert error_of("/v1/messages", messages)["message"].startswith("prompt is too long: ")
    assert "> 2000 maximum" in messages.text


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"role": "wizard", "content": "x"}], "wizard"),
        ([{"role": "user", "content": [{"type": "image", "source": {}}]}], "messages[0].content[0]"),
        ([{"role": "user"}], "content"),
        (
            [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}],
            "no earlier tool_use",
        ),
        ([QUESTION, {"role": "assistant", "content": "Par"}], "cannot be begun"),
        ([{"role": "user", "content": []}], "nothing to answer"),
        ([], "messages"),
    ],
)
async def test_conversations_that_anthropic_would_not_take_are_refused(
    proxy: Any, messages: list[Any], words: str
) -> None:
    answer = await send(proxy, "/v1/messages", json=GOOD["/v1/messages"] | {"messages": messages})
    assert answer.status_code == 400, answer.text
    assert words in error_of("/v1/messages", answer)["message"]


async def test_images_are_refused_with_words_by_models_that_read_text(proxy: Any) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    body = GOOD["/v1/chat/completions"] | {"messages": [{"role": "user", "content": [part]}]}
    answer = await send(proxy, "/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert "describe images in words" in error_of("/v1/chat/completions", answer)["message"]


async def test_an_engine_that_dies_in_mid_reply_is_told_and_what_was_sampled_is_kept(
    proxy: Any, engine: Any, encode: Encode, path: str
) -> None:
    for _ in range(2):
        engine.say(encode("Paris is the capital."), die_after=4)
    whole = await send(proxy, path, json=GOOD[path])
    assert whole.status_code == 502
    assert "the reply was cut" in error_of(path, whole)["message"]
    streamed = await send(proxy, path, json=GOOD[path] | {"stream": True})
    assert streamed.status_code == 200
    last = streamed.text.strip().split("\n\n")[-1]
    assert "the reply was cut" in last
    assert last.startswith(BROKEN.get(path, 'data: {"error"'))
    assert "[DONE]" not in streamed.text
    turns = await proxy.recorded()
    assert [(turn.finish, turn.exact) for turn in turns] == [("error", False)] * 2


async def test_a_busy_or_absent_engine_is_told_with_a_time_to_retry(proxy: Any, engine: Any, path: str) -> None:
    engine.say([], status=500)
    answer = await send(proxy, path, json=GOOD[path])
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert error_of(path, answer)["type"] == ("overloaded_error" if path == "/v1/messages" else "server_error")
