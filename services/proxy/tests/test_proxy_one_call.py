"""One call a reply, where the caller says so: the engine ends at the call's end, and what it sampled is exact."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from drivetrain.common.tokens import unpack_ids
from drivetrain.proxy.engines.sampling import engine_parameters
from drivetrain.proxy.prompts.templates import Template
from drivetrain.proxy.turns import Ask

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
SCHEMA = {"type": "object", "properties": {}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
CHAT: dict[str, Any] = {
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
    "parallel_tool_calls": False,
}
MESSAGES: dict[str, Any] = {
    "tools": [{"name": "weather", "input_schema": SCHEMA}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "max_tokens": 50,
}


async def post(proxy: Any, path: str, **body: Any) -> dict[str, Any]:
    async with httpx.AsyncClient(timeout=20) as http:
        answer = await http.post(proxy.url + path, json={"model": "default", "messages": [QUESTION]} | body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize(("path", "body"), [("/v1/chat/completions", CHAT), ("/v1/messages", MESSAGES)])
async def test_the_reply_ends_with_its_first_call_and_stays_exact(
    proxy: Any, engine: Any, encode: Encode, path: str, body: dict[str, Any]
) -> None:
    sampled = engine.say(encode("I look." + CALL)[:-1])
    answer = (
        await post(proxy, path, stop=["END"], **body) if path != "/v1/messages" else await post(proxy, path, **body)
    )
    assert "weather" in json.dumps(answer)
    assert ("tool_calls" if path != "/v1/messages" else "tool_use") in json.dumps(answer)
    own = ["END"] if path != "/v1/messages" else []
    assert engine.requests[0]["sampling_params"]["stop"] == [*own, "</tool_call>"]
    (turn,) = await proxy.recorded()
    assert (turn.finish, turn.exact, turn.sampling.stop) == ("tool_calls", True, [*own, "</tool_call>"])
    assert unpack_ids(turn.response_ids) == sampled
    assert len(turn.reply["tool_calls"]) == 1


async def test_the_next_prompt_continues_the_call_that_has_no_end_token(
    proxy: Any, engine: Any, encode: Encode, template: Template
) -> None:
    sampled = engine.say(encode(CALL)[:-1])
    engine.say(encode("Rain."))
    first = await post(proxy, "/v1/chat/completions", **CHAT)
    result = {"role": "tool", "tool_call_id": "x", "content": "rain"}
    history = [QUESTION, first["choices"][0]["message"], result]
    await post(proxy, "/v1/chat/completions", **CHAT, messages=history)
    before, after = (request["token_ids"] for request in engine.requests)
    assert after[: len(before) + len(sampled)] == before + sampled
    rest = template.decode(after[len(before) + len(sampled) :])
    assert rest == "<|im_end|>\n<|im_start|>tool\nrain<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize("body", [CHAT | {"parallel_tool_calls": True}, {"parallel_tool_calls": False}])
async def test_without_the_wish_or_without_tools_nothing_is_added(
    proxy: Any, engine: Any, encode: Encode, body: dict[str, Any]
) -> None:
    engine.say(encode("Paris."))
    await post(proxy, "/v1/chat/completions", **body)
    assert "stop" not in engine.requests[0]["sampling_params"]


def test_where_the_end_of_a_call_is_one_token_that_token_is_the_end() -> None:
    ask = Ask(model="m", messages=[], tools=CHAT["tools"], one_call=True, stop=["END"])
    atomic = engine_parameters(ask, [2], {7: "<tool_call>", 8: "</tool_call>"})
    assert (atomic["stop_token_ids"], atomic["stop"]) == ([2, 8], ["END"])
    pieces = engine_parameters(ask, [2], {})
    assert (pieces["stop_token_ids"], pieces["stop"]) == ([2], ["END", "</tool_call>"])
