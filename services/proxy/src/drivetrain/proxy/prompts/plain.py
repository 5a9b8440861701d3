"""Messages as chat templates expect them."""

from collections.abc import Sequence
from typing import Any

from drivetrain.common.events import Message
from drivetrain.proxy.conversations.lineage import arguments_of, text_of


def plain(message: Message, *, parts: bool = False) -> Message:
    """A message as chat templates expect it: `developer` as `system`, tool arguments as data, text as a string. With
    `parts` it is a list of texts and of places for images, but for a tool's, which is one only if it shows images: so
    vLLM writes it to templates that take lists."""
    role = "system" if message["role"] == "developer" else message["role"]
    listed = parts and (role != "tool" or bool(images_of([message])))
    result: Message = {"role": role, "content": _parts(message) if listed else text_of(message.get("content"))}
    for name in ("name", "tool_call_id", "reasoning_content"):
        if message.get(name):
            result[name] = message[name]
    if message.get("tool_calls"):
        result["tool_calls"] = [_plain_call(call) for call in message["tool_calls"]]
    return result


def images_of(messages: Sequence[Message]) -> list[str]:
    """The URLs of all images that messages show, in their order."""
    lists = (message["content"] for message in messages if isinstance(message.get("content"), list))
    return [part["image_url"]["url"] for parts in lists for part in parts if part.get("type") == "image_url"]


def _parts(message: Message) -> list[dict[str, str]]:
    content = message.get("content") or []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {"type": "image"} if part["type"] == "image_url" else {"type": "text", "text": part["text"]} for part in content
    ]


def _plain_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    plain_function = {"name": function["name"], "arguments": arguments_of(function.get("arguments") or "{}")}
    return {"type": "function", "id": call.get("id", ""), "function": plain_function}
