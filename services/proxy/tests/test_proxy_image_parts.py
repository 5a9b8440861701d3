"""Images on their way: as parts of messages, in what is asked of the engine, and in its words on too many."""

import json
from typing import Any

import pytest

from drivetrain.proxy.dialects import anthropic
from drivetrain.proxy.engines.wire import request_body, too_long
from drivetrain.proxy.prompts.plain import images_of, plain

RED, BLUE = "data:image/png;base64,cmVk", "data:image/png;base64,Ymx1ZQ=="


def url(image: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": image}}


def block(image: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image.partition(",")[2]}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def test_texts_and_images_become_the_parts_that_templates_take() -> None:
    shown = user(text("a"), url(RED))
    assert plain(shown, parts=True)["content"] == [text("a"), {"type": "image"}]
    assert plain({"role": "user", "content": "a"}, parts=True)["content"] == [text("a")]
    assert plain({"role": "assistant", "content": None}, parts=True)["content"] == []
    assert plain({"role": "tool", "content": [text("a")]}, parts=True)["content"] == "a"
    assert images_of([shown, {"role": "assistant", "content": None}, user(url(BLUE))]) == [RED, BLUE]


def test_what_is_asked_of_the_engine_is_unchanged_without_images() -> None:
    assert "content_parts" not in json.loads(request_body("t", [1], {}))
    assert "return_token_ids" not in json.loads(request_body("t", [1], {}))


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        (
            "This model's maximum context length is 2048 tokens. However, your prompt contains 7000 input tokens",
            (7000, 2048),
        ),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure", (5000, 4096)),
        ("Failed to load image", None),
    ],
)
def test_an_engine_that_finds_the_prompt_too_long_is_understood(said: str, counts: Any) -> None:
    assert too_long(said) == counts


def test_anthropic_keeps_a_lone_text_a_string_and_a_lone_image_a_part() -> None:
    body = {"model": "m", "max_tokens": 5, "messages": [user(text("a")), user(block(RED))]}
    ask = anthropic.read(json.dumps(body).encode())
    assert [message["content"] for message in ask.messages] == ["a", [url(RED)]]
