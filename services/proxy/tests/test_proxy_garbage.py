"""An engine that sends garbage in mid-reply, and requests that repeat much or nest deep, in every dialect's shape."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from drivetrain.common.tokens import unpack_ids
from drivetrain.proxy.errors import quoted

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
CHAT, TEXT, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/messages"
GOOD: dict[str, dict[str, Any]] = {
    CHAT: {"model": "default", "messages": [QUESTION]},
    TEXT: {"model": "default", "prompt": "The capital"},
    MESSAGES: {"model": "default", "messages": [QUESTION], "max_tokens": 50},
}


async def post(proxy: Any, path: str, **change: Any) -> httpx.Response:
    async with httpx.AsyncClient(timeout=20) as http:
        return await http.post(proxy.url + path, json=GOOD[path] | change)


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"x": value}
    return value


@pytest.mark.parametrize("path", GOOD)
async def test_garbage_in_mid_reply_is_told_and_the_turn_so_far_is_kept(
    proxy: Any, engine: Any, encode: Encode, path: str
) -> None:
    garbage = {"finish": None, "raw": b"data: {broken\n\n"}
    sampled = engine.say(encode("Paris.")[:-1], **garbage)
    engine.say(encode("Paris.")[:-1], **garbage)
    whole, streamed = await post(proxy, path), await post(proxy, path, stream=True)
    assert (whole.status_code, streamed.status_code) == (502, 200)
    assert "cannot be read" in whole.json()["error"]["message"]
    assert "cannot be read" in streamed.text.rstrip().rpartition("\n\n")[2]
    turns = await proxy.recorded()
    assert [(turn.finish, turn.exact, unpack_ids(turn.response_ids)) for turn in turns] == [
        ("error", False, sampled)
    ] * 2


@pytest.mark.parametrize("path", GOOD)
@pytest.mark.parametrize(
    ("change", "status"),
    [({"model": "m" * 50_000}, 404), ({"f" * 50_000: 1}, 400), ({"temperature": "t" * 50_000}, 400)],
    ids=["model", "field", "value"],
)
async def test_what_is_refused_is_not_repeated_whole(
    proxy: Any, path: str, change: dict[str, Any], status: int
) -> None:
    answer = await post(proxy, path, **change)
    assert answer.status_code == status
    assert len(answer.text) < 1000


async def test_a_long_role_is_not_repeated_whole(proxy: Any) -> None:
    answer = await post(proxy, CHAT, messages=[{"role": "r" * 50_000, "content": "x"}])
    assert (answer.status_code, len(answer.text) < 1000) == (400, True)
    assert answer.json()["error"]["param"] == "messages[0].role"


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "x", "odd": deep(70)},
        {"role": "user", "content": [{"type": "text", "text": "x", "odd": deep(70)}]},
    ],
)
async def test_what_nests_deep_in_a_message_is_refused_by_name(proxy: Any, message: dict[str, Any]) -> None:
    answer = await post(proxy, CHAT, messages=[QUESTION, message])
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "too_deep")
    assert answer.json()["error"]["message"] == "messages: JSON of more than 64 levels"


def test_a_value_is_quoted_up_to_64_characters() -> None:
    assert quoted("a'b") == '"a\'b"'
    assert quoted("m" * 64) == repr("m" * 64)
    assert quoted("m" * 65) == repr("m" * 63 + "…")
