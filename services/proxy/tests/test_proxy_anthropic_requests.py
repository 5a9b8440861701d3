"""What Anthropic's clients send beside plain messages: instructions, harness fields, counts, keys, other paths."""

import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest
from anthropic import AsyncAnthropic

from drivetrain.proxy.prompts.templates import Template

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
TOOL = {"name": "weather", "description": "", "input_schema": {"type": "object", "properties": {}}}


@pytest.fixture
async def sdk(proxy: Any) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=proxy.url, api_key="any", max_retries=0) as client:
        yield client


async def ask(sdk: AsyncAnthropic, messages: list[Any] | None = None, **options: Any) -> Any:
    return await sdk.messages.create(
        model="default", max_tokens=options.pop("max_tokens", 50), messages=messages or [QUESTION], **options
    )


async def post(proxy: Any, path: str = "/v1/messages", **change: Any) -> httpx.Response:
    body = {"model": "default", "max_tokens": 50, "messages": [QUESTION]} | change
    async with httpx.AsyncClient() as http:
        return await http.post(proxy.url + path, json=body, headers={"anthropic-version": "2023-06-01"})


def prompt_of(engine: Any, template: Template) -> str:
    return template.tokenizer.decode(engine.requests[-1]["token_ids"])


async def test_instructions_come_from_the_system_field_and_from_inside_the_conversation(
    sdk: AsyncAnthropic, engine: Any, encode: Encode, template: Template
) -> None:
    engine.say(encode("Paris."))
    await ask(
        sdk,
        [{"role": "system", "content": "Tools come later."}, QUESTION],
        system=[
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=1"},
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
        ],
    )
    assert prompt_of(engine, template) == (
        "<|im_start|>system\nBe brief.\n\nTools come later.<|im_end|>\n"
        "<|im_start|>user\nThe capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )


async def test_a_later_instruction_stays_where_it_is(
    sdk: AsyncAnthropic, engine: Any, encode: Encode, template: Template
) -> None:
    engine.say(encode("Paris."))
    await ask(sdk, [QUESTION, {"role": "system", "content": "Hurry."}], system="Be brief.")
    assert prompt_of(engine, template).endswith("<|im_start|>system\nHurry.<|im_end|>\n<|im_start|>assistant\n")


def test_where_a_template_takes_instructions_only_first_the_user_says_the_later_ones(
    model_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(model_folder, tmp_path / "model"))
    guard = "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('first') }}"
    written = "{% endif %}{{ m.role }}:{{ m.content }};{% endfor %}"
    for file in folder.glob("*.jinja"):
        file.unlink()
    config = json.loads((folder / "tokenizer_config.json").read_text()) | {"chat_template": guard + written}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    system = {"role": "system", "content": "Hurry."}
    assert Template(str(folder)).text([system, QUESTION, system], []) == (
        "system:Hurry.;user:The capital of France?;user:Hurry.;"
    )


async def test_what_coding_harnesses_send_is_accepted(proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris."))
    answer = await post(
        proxy,
        path="/v1/messages?beta=true",
        thinking={"type": "adaptive", "display": "omitted"},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        output_config={"effort": "high"},
        metadata={"user_id": json.dumps({"session_id": "s"})},
        tools=[{**TOOL, "defer_loading": True}],
        messages=[
            QUESTION,
            {
                "role": "assistant",
                "content": [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "Hm"}],
            },
            {"role": "user", "content": [{"type": "text", "text": "Well?"}]},
        ],
    )
    assert answer.status_code == 200, answer.text
    (turn,) = await proxy.recorded()
    assert [message["content"] for message in turn.messages] == [QUESTION["content"], "Hm", "Well?"]
    assert turn.tools[0]["function"]["name"] == "weather"


async def test_count_tokens_is_what_the_prompt_will_have(sdk: AsyncAnthropic, engine: Any, encode: Encode) -> None:
    asked = {"model": "default", "messages": [QUESTION], "system": "Be brief.", "tools": [TOOL]}
    counted = await sdk.messages.count_tokens(**asked)
    engine.say(encode("Paris."))
    await sdk.messages.create(max_tokens=5, **asked)
    assert counted.input_tokens == len(engine.requests[0]["token_ids"])


async def test_models_are_listed_in_the_shape_of_the_client(sdk: AsyncAnthropic, proxy: Any) -> None:
    assert [model.id async for model in sdk.models.list()] == ["default"]
    assert (await sdk.models.retrieve("default")).type == "model"
    async with httpx.AsyncClient() as http:
        plain = (await http.get(f"{proxy.url}/v1/models")).json()
    assert (plain["object"], plain["data"][0]["object"]) == ("list", "model")


@pytest.mark.parametrize("key", [{"auth_token": "dtr_forged"}, {"api_key": "dtr_forged"}])
async def test_a_key_is_read_from_either_header(proxy: Any, key: dict[str, str]) -> None:
    async with AsyncAnthropic(base_url=proxy.url, max_retries=0, **key) as client:
        with pytest.raises(anthropic.AuthenticationError) as caught:
            await ask(client)
    assert caught.value.body["error"]["type"] == "authentication_error"


async def test_probes_of_other_paths_are_a_clean_404(proxy: Any) -> None:
    async with httpx.AsyncClient() as http:
        head = await http.head(f"{proxy.url}/api/hello")
        other = await http.get(f"{proxy.url}/v1/messages/batches", headers={"anthropic-version": "2023-06-01"})
        method = await http.get(f"{proxy.url}/v1/messages")
    assert (head.status_code, head.content) == (404, b"")
    assert other.json()["error"]["type"] == "not_found_error"
    assert (method.status_code, method.headers["allow"]) == (405, "POST")
