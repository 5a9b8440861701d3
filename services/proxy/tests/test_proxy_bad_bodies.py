"""Bodies, methods and conversations that no endpoint takes, at every endpoint that has a body."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
MESSAGES, COUNT, FEEDBACK = "/v1/messages", "/v1/messages/count_tokens", "/v1/feedback"
GOOD: dict[str, dict[str, Any]] = {
    CHAT: {"model": "default", "messages": [QUESTION]},
    TEXT: {"model": "default", "prompt": "The capital"},
    RESPONSES: {"model": "default", "input": [QUESTION]},
    MESSAGES: {"model": "default", "messages": [QUESTION], "max_tokens": 50},
    COUNT: {"model": "default", "messages": [QUESTION]},
    FEEDBACK: {"session": "s", "thumb": "up"},
}
USER_RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]}
RESULT = {
    CHAT: {"role": "tool", "tool_call_id": "c", "content": "x"},
    MESSAGES: USER_RESULT,
    COUNT: USER_RESULT,
}


async def refused(proxy: Any, path: str, status: int, method: str = "POST", **sent: Any) -> str:
    """The field and the words of a refusal with this status, after a look at its shape."""
    async with asyncio.timeout(60), httpx.AsyncClient(timeout=60) as http:
        answer = await http.request(method, proxy.url + path, **sent)
    assert answer.status_code == status, answer.text
    body = answer.json()
    error = body["error"]
    if path in (MESSAGES, COUNT):
        assert (set(body), set(error), body["type"]) == ({"type", "error"}, {"type", "message"}, "error")
        assert error["type"] == {413: "request_too_large", 404: "not_found_error"}.get(status, "invalid_request_error")
    else:
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
    return f"{error.get('param') or ''}: {error['message']}"


@pytest.mark.parametrize("path", GOOD)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xef\xbb\xbf{}",
        b'{"model": "\xff"}',
        b'{"model": "\\ud800"}',
        b'{"a": 1e400}',
        b'{"a": NaN}',
        b'{"a": 1,}',
        b"{} {}",
        b"[" * 50_000,
        b'{"a": ' * 15_000,
        b"a=1&b=2",
    ],
    ids=lambda body: repr(body[:14]),
)
async def test_what_is_no_json_object_is_refused_with_a_word_on_the_body(proxy: Any, path: str, body: bytes) -> None:
    words = await refused(proxy, path, 400, content=body)
    assert any(word in words for word in ("the body", "the feedback", "levels")), words


@pytest.mark.parametrize("path", GOOD)
async def test_twenty_megabytes_are_refused_before_they_are_read(proxy: Any, path: str) -> None:
    assert "larger than 100000 bytes" in await refused(proxy, path, 413, content=b" " * 20_000_000)


@pytest.mark.parametrize("path", GOOD)
async def test_a_body_without_a_length_is_cut_off_where_it_becomes_too_large(proxy: Any, path: str) -> None:
    sent = 0

    async def parts() -> Any:
        nonlocal sent
        while sent < 200_000:
            sent += 10_000
            yield b" " * 10_000

    assert "larger than 100000 bytes" in await refused(proxy, path, 413, content=parts())


@pytest.mark.parametrize("path", GOOD)
@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "PATCH", "DELETE", "GET"])
async def test_other_methods_are_refused_with_those_that_are_taken(proxy: Any, path: str, method: str) -> None:
    assert f"does not take {method}" in await refused(proxy, path, 405, method=method)


@pytest.mark.parametrize("path", GOOD)
async def test_head_has_no_body(proxy: Any, path: str) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.head(proxy.url + path)
    assert (answer.status_code, answer.headers["allow"], answer.content) == (405, "POST", b"")


@pytest.mark.parametrize("path", [CHAT, TEXT, RESPONSES, MESSAGES, COUNT])
async def test_the_last_of_equal_keys_counts_and_the_content_type_does_not(
    proxy: Any, engine: Any, encode: Encode, path: str
) -> None:
    engine.say(encode("Paris."))
    body = '{"model": "other", ' + json.dumps(GOOD[path])[1:]
    async with httpx.AsyncClient() as http:
        answer = await http.post(proxy.url + path, content=body, headers={"content-type": "text/plain"})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("path", [CHAT, MESSAGES, COUNT])
@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"role": "wizard", "content": "x"}], "messages[0]"),
        (["x"], "messages[0]"),
        ([{"content": "x"}], "messages[0]"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([QUESTION, {"role": "user"}], "messages[1].content"),
        ({"0": QUESTION}, "messages"),
        ([], "messages"),
    ],
)
async def test_conversations_that_are_none_are_refused_with_the_message_at_fault(
    proxy: Any, path: str, messages: Any, words: str
) -> None:
    assert words in await refused(proxy, path, 400, json=GOOD[path] | {"messages": messages})


@pytest.mark.parametrize("path", RESULT)
async def test_a_tool_result_without_a_call_is_refused(proxy: Any, path: str) -> None:
    words = await refused(proxy, path, 400, json=GOOD[path] | {"messages": [QUESTION, RESULT[path]]})
    assert "tool result needs" in words or "no earlier tool_use" in words


@pytest.mark.parametrize("path", [CHAT, MESSAGES, COUNT])
async def test_ten_thousand_messages_are_too_many(start_proxy: Any, engine: Any, path: str) -> None:
    async with start_proxy([engine.url], bounds={"body_bytes": 16 << 20}) as proxy:
        words = await refused(proxy, path, 400, json=GOOD[path] | {"messages": [QUESTION] * 10_000})
        assert "10000 messages are more than the 8000 allowed" in words


@pytest.mark.parametrize("path", [CHAT, TEXT, RESPONSES])
async def test_a_prompt_beyond_the_context_is_told_in_the_words_that_harnesses_know(proxy: Any, path: str) -> None:
    words = "Paris " * 2000
    long = {"prompt": words} if path == TEXT else {"messages": [QUESTION | {"content": words}]}
    long = {"input": words} if path == RESPONSES else long
    assert "maximum context length is 2000 tokens" in await refused(proxy, path, 400, json=GOOD[path] | long)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"session": "s"}, "thumb"),
        ({"session": "s", "thumb": "sideways"}, "thumb"),
        ({"session": "s", "score": 2}, "score"),
        ({"session": "s", "thumb": "up", "stars": 5}, "stars"),
        ({"session": 5, "thumb": "up"}, "session"),
        ({"thumb": "up"}, "session"),
    ],
)
async def test_feedback_that_means_nothing_names_the_field(proxy: Any, body: dict[str, Any], words: str) -> None:
    assert words in await refused(proxy, FEEDBACK, 400, json=body)


@pytest.mark.parametrize("turn", ["*", ">", "a.b", "a\0b", "..", "a" * 50_000, "chatcmpl-", "é"])
async def test_feedback_on_a_reply_that_cannot_be_is_a_404(proxy: Any, turn: str) -> None:
    assert "no such reply" in await refused(proxy, FEEDBACK, 404, json={"turn": turn, "thumb": "up"})


@pytest.mark.parametrize("path", [CHAT, TEXT, RESPONSES, MESSAGES])
async def test_a_stalled_engine_is_an_error_in_every_dialect(
    start_proxy: Any, engine: Any, encode: Encode, path: str
) -> None:
    for _ in range(2):
        engine.say(encode("Paris."), hold=asyncio.Event(), hold_after=2)
    async with start_proxy([engine.url], stall_s=0.2) as proxy, httpx.AsyncClient(timeout=20) as http:
        whole = await http.post(proxy.url + path, json=GOOD[path])
        streamed = await http.post(proxy.url + path, json=GOOD[path] | {"stream": True})
        assert (whole.status_code, streamed.status_code) == (502, 200)
        assert "silent" in whole.json()["error"]["message"]
        assert "silent" in streamed.text.rstrip().rpartition("\n\n")[2]
        assert [turn.finish for turn in await proxy.recorded()] == ["error"] * 2
