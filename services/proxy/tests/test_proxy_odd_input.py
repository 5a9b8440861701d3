"""What JSON can say and records or texts cannot hold; and tokens, calls and answers of an engine that cannot be."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from drivetrain.proxy.conversations.lineage import arguments_of
from drivetrain.proxy.dialects.reading import parse
from drivetrain.proxy.engines.vllm import Vllm
from drivetrain.proxy.errors import Refused

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "maximum": 2**70}}}
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


def called(arguments: str) -> list[dict[str, Any]]:
    """A conversation with a tool call of these arguments."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    calling = {"role": "assistant", "content": None, "tool_calls": [call]}
    return [QUESTION, calling, {"role": "tool", "tool_call_id": "c", "content": "done"}]


async def ask(proxy: Any, path: str, body: dict[str, Any], *, stream: bool) -> httpx.Response:
    """An answer, whole and with its end."""
    async with httpx.AsyncClient(timeout=20) as http:
        answer = await http.post(proxy.url + path, json={"model": "default", "stream": stream} | body)
    if stream and answer.status_code == 200:
        assert answer.text.rstrip().rpartition("\n\n")[2] in (
            "data: [DONE]",
            'event: message_stop\ndata: {"type":"message_stop"}',
        )
    return answer


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": [QUESTION | {"odd": 2**70}]}),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "odd": -(2**64)}]}]}),
        (CHAT, {"messages": [QUESTION], "tools": [TOOL]}),
        (CHAT, {"messages": called('{"a": 100000000000000000000000}')}),
        (CHAT, {"messages": called('{"a": "\\ud800", "b": NaN}')}),
        (CHAT, {"messages": called("[" * 300)}),
        (MESSAGES, {"messages": [QUESTION], "max_tokens": 5, "tools": [{"name": "f", "input_schema": {"m": 2**70}}]}),
    ],
)
async def test_what_a_record_cannot_hold_costs_neither_the_reply_nor_the_turn(
    proxy: Any, engine: Any, encode: Encode, path: str, body: dict[str, Any], stream: bool
) -> None:
    engine.say(encode("Paris."))
    answer = await ask(proxy, path, body, stream=stream)
    assert answer.status_code == 200, answer.text
    assert [turn.finish for turn in await proxy.recorded()] == ["stop"]


def test_integers_beyond_64_bits_are_the_doubles_that_javascript_makes_of_them() -> None:
    body = b'{"a": [18446744073709552000, 18446744073709551615, -9223372036854775808, null], "b": null}'
    assert parse(body) == {"a": [1.8446744073709552e19, 2**64 - 1, -(2**63), None]}
    with pytest.raises(Refused, match="out of range"):
        parse(b'{"a": ' + b"9" * 400 + b"}")


def test_half_a_surrogate_pair_in_arguments_is_a_question_mark_and_a_whole_one_is_kept() -> None:
    assert arguments_of('{"a": "\\ud83d\\ude00", "b": "x\\ud83d"}') == {"a": "😀", "b": "x?"}
    assert arguments_of('{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("said", "names"),
    [
        ('{"name": "f", "arguments": {"a": "\\ud800"}}', ["f"]),
        ('{"name": "f\\ud800", "arguments": {"a": 1}}', ["f?"]),
        ('{"name": "f", "arguments": ' + "[" * 1200, []),
    ],
)
async def test_whatever_call_a_model_writes_reaches_the_caller_and_the_record(
    start_proxy: Any, engine: Any, encode: Encode, said: str, names: list[str], stream: bool
) -> None:
    async with start_proxy([engine.url], context_tokens=8000) as proxy:
        sampled = engine.say(encode(f"<tool_call>\n{said}\n</tool_call>"))
        answer = await ask(proxy, CHAT, {"messages": [QUESTION], "tools": [TOOL]}, stream=stream)
        assert answer.status_code == 200, answer.text
        (turn,) = await proxy.recorded()
        assert [call["function"]["name"] for call in turn.reply.get("tool_calls", ())] == names
        assert len(turn.response_ids) == 4 * len(sampled)
        engine.say(encode("Paris."))
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": ""} for call in turn.reply.get("tool_calls", ())
        ]
        more = [QUESTION, turn.reply, *results, QUESTION]
        again = await ask(proxy, CHAT, {"messages": more, "tools": [TOOL]}, stream=stream)
        assert again.status_code == 200, again.text
        # The next request finds the turn that it continues.
        assert {each.parent for each in await proxy.recorded()} == {None, turn.turn}


@pytest.mark.parametrize("token", [-5, 2**31, 2**70, 1.5, None, "7"])
async def test_tokens_that_cannot_be_are_an_error_of_the_engine(
    proxy: Any, engine: Any, encode: Encode, token: Any
) -> None:
    kept = engine.say([*encode("Paris.")[:2], token, *encode("Paris.")], finish="stop")[:2]
    answer = await ask(proxy, CHAT, {"messages": [QUESTION]}, stream=False)
    assert (answer.status_code, answer.json()["error"]["code"]) in ((502, "engine_broke"), (503, "engine_unavailable"))
    assert all(turn.finish == "error" and len(turn.response_ids) <= 4 * len(kept) for turn in await proxy.recorded())


@pytest.mark.parametrize(
    "models", [[], [None], ["x"], [{}], [{"max_model_len": "many"}], [{"max_model_len": -1}], {"a": 1}, None]
)
async def test_an_engine_that_says_nonsense_of_its_context_says_nothing(
    engine: Any, monkeypatch: pytest.MonkeyPatch, models: Any
) -> None:
    vllm = Vllm()

    async def said(url: str) -> dict[str, Any]:
        return json.loads(json.dumps({"data": models}))

    monkeypatch.setattr(vllm, "_ask", said)
    assert await vllm.context_tokens(engine.url) is None
    await vllm.close()
