"""Histories in OpenAI Responses: what clients send back is found again, and the recorded tokens go on."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from drivetrain.common.keys import KeyEntry, hash_of, new_key, write_keys
from tests.proxy_served import Proxy

Encode = Callable[[str], list[int]]
SHELL = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}}
PATCH = {"type": "custom", "name": "apply_patch", "format": {"type": "text"}}
AGENTS = {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]}
CALL = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'
SEALED = ["reasoning.encrypted_content"]


@pytest.fixture
async def sdk(proxy: Any) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="any", max_retries=0) as client:
        yield client


async def ask(sdk: AsyncOpenAI, given: Any, **options: Any) -> Any:
    return await sdk.responses.create(model="default", input=given, **options)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


def as_codex_sends(item: Any) -> dict[str, Any]:
    """An output item as Codex repeats it: no plain reasoning, nulls where a field has nothing."""
    sent: dict[str, Any] = item.to_dict()
    return {**sent, "content": None} if sent["type"] == "reasoning" else sent


async def turns(proxy: Proxy, count: int) -> list[Any]:
    found = await proxy.recorded()
    assert len(found) == count
    return sorted(found, key=lambda turn: turn.started_at)


@pytest.mark.parametrize(
    ("reply", "tools", "kind"),
    [
        (CALL % ("shell", '{"command": ["ls",  "-l"]}'), [SHELL], "function_call"),
        (CALL % ("apply_patch", '{"input": "*** Begin Patch\\n+é"}'), [PATCH], "custom_tool_call"),
        (CALL % ("agents__spawn", '{"task": "look"}'), [AGENTS], "function_call"),
    ],
)
async def test_a_call_comes_back_with_its_result_and_the_tokens_go_on(
    sdk: AsyncOpenAI, proxy: Proxy, engine: Any, encode: Encode, reply: str, tools: list[Any], kind: str
) -> None:
    sampled = engine.say(encode(f"I look.{reply}"))
    first = await ask(sdk, [user("What is here?")], tools=tools, include=SEALED, store=False)
    assert [item.type for item in first.output] == ["message", kind]
    result = {"type": f"{kind}_output", "call_id": first.output[-1].call_id, "output": "README.md"}
    engine.say(encode("One file."))
    history = [user("What is here?"), *map(as_codex_sends, first.output), result]
    await ask(sdk, history, tools=tools, include=SEALED, store=False)
    one, two = await turns(proxy, 2)
    assert (two.parent, two.session) == (one.turn, one.session)
    assert two.drift in ("clean", "realigned")
    begun = engine.requests[0]["token_ids"] + sampled
    assert engine.requests[1]["token_ids"][: len(begun)] == begun
    (followed,) = await proxy.followed()
    assert (followed.turn, followed.messages[0]["content"]) == (one.turn, "README.md")


async def test_reasoning_that_came_back_sealed_is_read_again(
    sdk: AsyncOpenAI, proxy: Proxy, engine: Any, encode: Encode
) -> None:
    engine.say(encode("<think>\nLook first. ü\n</think>\n\nI looked."))
    first = await ask(sdk, [user("What is here?")], include=SEALED)
    engine.say(encode("One file."))
    foreign = {"type": "reasoning", "id": "rs_x", "summary": [], "encrypted_content": "gAAAA_of_another_provider"}
    await ask(sdk, [user("What is here?"), *map(as_codex_sends, first.output), foreign, user("And?")])
    messages = (await turns(proxy, 2))[-1].messages
    assert [(m["role"], m.get("reasoning_content"), m["content"]) for m in messages] == [
        ("user", None, "What is here?"),
        ("assistant", "Look first. ü", "I looked."),
        ("user", None, "And?"),
    ]


async def test_a_custom_tool_is_called_with_its_free_input(sdk: AsyncOpenAI, engine: Any, encode: Encode) -> None:
    engine.say(encode(CALL % ("apply_patch", json.dumps({"input": "*** Begin\n+ü"}))))
    events = [event async for event in await ask(sdk, "Patch it", tools=[PATCH], stream=True)]
    (item,) = events[-1].response.output
    assert (item.type, item.name, item.input) == ("custom_tool_call", "apply_patch", "*** Begin\n+ü")
    deltas = [event.delta for event in events if event.type == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == item.input


async def test_a_call_in_a_namespace_says_which(sdk: AsyncOpenAI, engine: Any, encode: Encode) -> None:
    engine.say(encode(CALL % ("agents__spawn", "{}")))
    (item,) = (await ask(sdk, "Go", tools=[AGENTS])).output
    assert (item.name, item.to_dict()["namespace"]) == ("spawn", "agents")


async def test_tools_that_an_item_brings_are_offered(
    sdk: AsyncOpenAI, proxy: Proxy, engine: Any, encode: Encode
) -> None:
    engine.say(encode(CALL % ("agents__spawn", "{}")))
    brought = {"type": "additional_tools", "role": "developer", "tools": [AGENTS, PATCH]}
    (item,) = (await ask(sdk, [brought, user("Go")])).output
    assert item.name == "spawn"
    (turn,) = await turns(proxy, 1)
    assert [tool["function"]["name"] for tool in turn.tools] == ["agents__spawn", "apply_patch"]


async def test_a_request_may_name_the_response_that_it_goes_on_from(
    sdk: AsyncOpenAI, proxy: Proxy, engine: Any, encode: Encode
) -> None:
    sampled = engine.say(encode(CALL % ("shell", "{}")))
    first = await ask(sdk, "List", instructions="Be brief.", tools=[SHELL])
    engine.say(encode("Done."))
    result = {"type": "function_call_output", "call_id": first.output[0].call_id, "output": "a b"}
    second = await ask(sdk, [result], previous_response_id=first.id, instructions="Be brief.", tools=[SHELL])
    assert second.previous_response_id == first.id
    one, two = await turns(proxy, 2)
    assert (two.parent, two.drift) == (one.turn, "clean")
    begun = engine.requests[0]["token_ids"] + sampled
    assert engine.requests[1]["token_ids"][: len(begun)] == begun
    engine.say(encode("Yes."))
    await ask(sdk, "Sure?", previous_response_id=second.id, tools=[SHELL])
    assert (await turns(proxy, 3))[-1].parent == two.turn


async def test_new_instructions_take_the_place_of_those_before(
    sdk: AsyncOpenAI, proxy: Proxy, engine: Any, encode: Encode
) -> None:
    engine.say(encode("Hello."))
    first = await ask(sdk, "Hi", instructions="Be brief.")
    engine.say(encode("Hello again."))
    await ask(sdk, "Again", previous_response_id=first.id, instructions="Be long.")
    last = (await turns(proxy, 2))[-1]
    assert [message["content"] for message in last.messages] == ["Be long.", "Hi", "Hello.", "Again"]


async def test_a_response_is_known_to_its_own_tenant_alone(
    start_proxy: Any, engine: Any, encode: Encode, tmp_path: Path
) -> None:
    keys = {name: new_key() for name in ("ours", "theirs")}
    entries = {key_id: KeyEntry(hash=hash_of(key), tenant=name) for name, (key, key_id) in keys.items()}
    (tmp_path / "keys.toml").write_text(write_keys(entries))
    engine.say_always(encode("Hello."))
    async with start_proxy([engine.url], keys=tmp_path / "keys.toml") as proxy:
        ours, theirs = (AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key=key, max_retries=0) for key, _ in keys.values())
        first = await ask(ours, "Hi")
        assert (await ask(ours, "On", previous_response_id=first.id)).status == "completed"
        with pytest.raises(BadRequestError) as caught:
            await ask(theirs, "On", previous_response_id=first.id)
        assert caught.value.code == "previous_response_not_found"


async def test_server_tools_can_be_left_out_by_setting(start_proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say_always(encode("Hello."))
    async with start_proxy([engine.url], bounds={"server_tools": "ignore"}) as proxy:
        sdk = AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="any", max_retries=0)
        assert (await ask(sdk, "Hi", tools=[{"type": "web_search"}, SHELL])).output_text == "Hello."
        (turn,) = await turns(proxy, 1)
        assert [tool["function"]["name"] for tool in turn.tools] == ["shell"]
