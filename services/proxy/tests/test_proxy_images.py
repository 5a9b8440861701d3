"""Images, for models that read them: in both dialects, in tool loops, recorded with the turn; refused elsewhere."""

import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from drivetrain.common.tokens import unpack_ids
from drivetrain.proxy.prompts.templates import Template

Encode = Callable[[str], list[int]]
RED, BLUE = "data:image/png;base64,cmVk", "data:image/png;base64,Ymx1ZQ=="
SHOWN = """{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}\
{{ '<image>' if part.type == 'image' and message.role == 'user' else part.text }}{% endfor %}{% endif %}\
{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{{ tools | tojson if tools else '' }}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TOOL = {"name": "look", "input_schema": {"type": "object"}}


def url(image: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": image}}


def block(image: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image.partition(",")[2]}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


@pytest.fixture(scope="module")
def seeing(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that reads images: `<image>` marks the place of one, in what users say."""
    folder = Path(shutil.copytree(model_folder, tmp_path_factory.mktemp("seeing") / "model"))
    tokenizer = Template(str(model_folder)).tokenizer
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    tokenizer.chat_template = SHOWN
    tokenizer.save_pretrained(str(folder))
    (folder / "config.json").write_text(json.dumps({"vision_config": {}, "text_config": {}}))
    return folder


@pytest.fixture
async def proxy(start_proxy: Any, engine: Any, seeing: Path) -> AsyncIterator[Any]:
    async with start_proxy([engine.url], model=seeing) as running:
        yield running


async def post(proxy: Any, path: str, messages: list[Any], **more: Any) -> httpx.Response:
    body = {"model": "default", "messages": messages, "max_tokens": 50} | more
    async with httpx.AsyncClient(timeout=20) as http:
        return await http.post(proxy.url + path, json=body)


@pytest.mark.parametrize(("path", "image"), [("/v1/chat/completions", url), ("/v1/messages", block)])
async def test_an_image_reaches_the_engine_at_its_mark_and_the_record_in_its_message(
    proxy: Any, engine: Any, encode: Encode, seeing: Path, path: str, image: Any
) -> None:
    engine.say(encode("Red."))
    answer = await post(proxy, path, [user(text("What is"), image(RED), text("?"))])
    assert answer.status_code == 200, answer.text
    (sent,) = engine.requests
    assert sent["content_parts"] == [{"type": "image_url", "url": RED}]
    prompt = Template(str(seeing)).decode(sent["token_ids"])
    assert prompt == "<|im_start|>user\nWhat is<image>?<|im_end|>\n<|im_start|>assistant\n"
    usage = answer.json()["usage"]
    told = usage.get("prompt_tokens") or usage["input_tokens"] + usage["cache_read_input_tokens"]
    assert told == len(sent["token_ids"]) + 4
    (turn,) = await proxy.recorded()
    assert unpack_ids(turn.prompt_ids) == sent["token_ids"]
    assert turn.messages == [user(text("What is"), url(RED), text("?"))]
    assert (turn.exact, turn.inexact_reason) == (False, "images")


async def test_a_conversation_goes_on_with_all_its_images_and_the_recorded_tokens(
    proxy: Any, engine: Any, encode: Encode
) -> None:
    sampled = engine.say(encode("Red."))
    engine.say(encode("Blue."))
    first = user(url(RED), text("?"))
    reply = (await post(proxy, "/v1/chat/completions", [first])).json()["choices"][0]["message"]
    await post(proxy, "/v1/chat/completions", [first, reply, user(text("And"), url(BLUE))])
    before, after = engine.requests
    assert after["token_ids"][: len(before["token_ids"]) + len(sampled)] == before["token_ids"] + sampled
    assert [part["url"] for part in after["content_parts"]] == [RED, BLUE]
    one, two = await proxy.recorded()
    assert (two.parent, two.drift, two.messages) == (one.turn, "clean", [user(text("And"), url(BLUE))])
    assert not (await proxy.followed())[0].trainable


async def test_another_image_is_another_conversation(proxy: Any, engine: Any, encode: Encode) -> None:
    for word in ("Red.", "Yes."):
        engine.say(encode(word))
    said = {"role": "assistant", "content": "Red."}
    await post(proxy, "/v1/chat/completions", [user(url(RED))])
    await post(proxy, "/v1/chat/completions", [user(url(BLUE)), said, user(text("Sure?"))])
    one, two = await proxy.recorded()
    assert (two.parent, two.session == one.session) == (None, False)


async def test_images_of_tool_results_are_shown_after_all_results(proxy: Any, engine: Any, encode: Encode) -> None:
    calls = [{"type": "tool_use", "id": name, "name": "look", "input": {}} for name in ("a", "b")]
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": [text("seen"), block(RED)]},
        {"type": "tool_result", "tool_use_id": "b", "content": "nothing"},
        text("Well?"),
    ]
    engine.say(encode("Red."))
    messages = [user(text("Look")), {"role": "assistant", "content": calls}, user(*results)]
    answer = await post(proxy, "/v1/messages", messages, tools=[TOOL])
    assert answer.status_code == 200, answer.text
    (turn,) = await proxy.recorded()
    *_, first, second, last = turn.messages
    assert [(m["role"], m["content"]) for m in (first, second)] == [("tool", "seen"), ("tool", "nothing")]
    assert last == user(url(RED), text("Well?"))


async def test_token_ids_and_the_beginning_of_a_stream_count_what_the_engine_reads(
    proxy: Any, engine: Any, encode: Encode
) -> None:
    for _ in range(2):
        engine.say(encode("Red."))
    answer = await post(proxy, "/v1/chat/completions", [user(url(RED))], return_token_ids=True)
    prompt = engine.requests[0]["token_ids"]
    assert answer.json()["prompt_token_ids"] == prompt + [0] * 4
    stream = await post(proxy, "/v1/messages", [user(block(RED))], stream=True)
    start = json.loads(stream.text.split("data: ")[1].split("\n")[0])
    assert start["message"]["usage"]["input_tokens"] == len(prompt) + 4


@pytest.mark.parametrize(
    ("path", "messages", "words"),
    [
        ("/v1/chat/completions", [user(url("https://example.com/x.png"))], "nothing is fetched"),
        ("/v1/chat/completions", [user(url("data:image/png;base64,@@"))], "messages[0].content[0].image_url.url"),
        ("/v1/chat/completions", [user(url("data:text/html;base64,AAAA"))], "send the image itself"),
        ("/v1/chat/completions", [user({"type": "input_audio"})], "text and image_url are supported"),
        ("/v1/chat/completions", [{"role": "system", "content": [url(RED)]}], "show them in a user message"),
        ("/v1/chat/completions", [user(url(RED), text("not an <image>"))], "leave such marks out"),
        ("/v1/messages", [user({"type": "image", "source": {"type": "url", "url": "http://x"}})], "nothing is fetched"),
        ("/v1/messages", [user({"type": "image", "source": {"type": "base64", "data": "AAAA"}})], "media_type"),
    ],
)
async def test_images_that_cannot_be_shown_are_refused_by_name(
    proxy: Any, engine: Any, path: str, messages: list[Any], words: str
) -> None:
    answer = await post(proxy, path, messages)
    assert answer.status_code == 400, answer.text
    assert words in answer.json()["error"]["message"]
    assert engine.requests == []


async def test_a_template_without_a_place_for_a_tools_images_says_so(proxy: Any) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    calling = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c", "content": [url(RED)]}
    answer = await post(proxy, "/v1/chat/completions", [user(text("Look")), calling, result])
    assert answer.status_code == 400
    assert "show images in user messages" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"])
async def test_a_model_that_reads_text_alone_refuses_images(start_proxy: Any, engine: Any, path: str) -> None:
    image = url(RED) if path == "/v1/chat/completions" else block(RED)
    async with start_proxy([engine.url]) as blind:
        more = {} if path != "/v1/messages/count_tokens" else {"max_tokens": 5}
        answer = await post(blind, path, [user(image)], **more)
        assert answer.status_code == 400
        assert "describe images in words" in answer.json()["error"]["message"]


def test_a_template_takes_places_for_images_only_if_the_model_has_eyes(seeing: Path, model_folder: Path) -> None:
    template = Template(str(seeing))
    assert {template.decode([token]): times for token, times in template.image_marks.items()} == {"<image>": 1}
    assert Template(str(model_folder)).image_marks == {}
