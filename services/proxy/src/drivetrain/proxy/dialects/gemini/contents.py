"""Gemini's contents as the messages of OpenAI chat."""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from drivetrain.common.events import Message as Inner
from drivetrain.proxy.dialects.gemini.body import Blob, Content, CountBody, FunctionCall, FunctionResponse, Part
from drivetrain.proxy.dialects.sealing import unseal
from drivetrain.proxy.errors import Refused, quoted

_OUTPUTS = ("output", "result", "error", "content")
"""Fields in which clients give a function's whole output as text."""


def conversation(body: CountBody) -> list[Inner]:
    """All messages, the system instruction first.

    Raises:
        Refused: a part that says nothing, or a result without its call.
    """
    parts = body.system_instruction.parts if body.system_instruction else []
    system = "\n\n".join(part.text for part in parts if part.text)
    messages: list[Inner] = [{"role": "system", "content": system}] if system else []
    open_calls: list[dict[str, Any]] = []
    for model, run in groupby(enumerate(body.contents), key=lambda each: each[1].role == "model"):
        if model:
            said = _said(list(_parts(run)))
            open_calls += said.get("tool_calls", ())
            messages.append(said)
        else:
            for index, content in run:
                messages += _heard(content, open_calls, f"contents[{index}]")
    if messages[-1]["role"] == "assistant":
        words = "the last content must be the user's: a reply cannot be begun for the model"
        raise Refused(400, words, param=f"contents[{len(body.contents) - 1}]")
    return messages


def _parts(contents: Iterator[tuple[int, Content]]) -> Iterator[tuple[str, Part]]:
    """The parts of contents in a row, with their places."""
    for index, content in contents:
        yield from ((f"{index}_{at}", part) for at, part in enumerate(content.parts))


def _said(parts: Sequence[tuple[str, Part]]) -> Inner:
    """The model's own message: clients that stream keep each chunk of a reply as a content of its own. A call without
    an id gets one from its place, the same in every request."""
    calls = [_call(part.function_call, f"call_m{place}") for place, part in parts if part.function_call]
    text = "".join(part.text for _, part in parts if part.text and not part.thought)
    message: Inner = {"role": "assistant", "content": text if text or not calls else None}
    thought = "".join(part.text for _, part in parts if part.text and part.thought)
    if thought := thought or "".join(unseal(part.thought_signature or "") for _, part in parts):
        message["reasoning_content"] = thought
    return message | ({"tool_calls": calls} if calls else {})


def _call(call: FunctionCall, identity: str) -> dict[str, Any]:
    arguments = json.dumps(call.args, ensure_ascii=False)
    return {"id": call.id or identity, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _heard(content: Content, open_calls: list[dict[str, Any]], at: str) -> list[Inner]:
    """What others than the model say: each result is a message, and so is what is said between them."""
    messages: list[Inner] = []
    for index, part in enumerate(content.parts):
        if part.function_response:
            messages.append(_result(part.function_response, open_calls, f"{at}.parts[{index}].functionResponse"))
            for shown in part.function_response.parts or ():
                _say(messages, _image(shown.inline_data))
        elif (said := _part(part)) is not None:
            _say(messages, said)
        else:
            words = "this part says nothing: give text, inlineData or functionResponse"
            raise Refused(400, words, param=f"{at}.parts[{index}]")
    if not messages:
        raise Refused(400, "there is nothing in it", param=at)
    return [_simple(message) for message in messages]


def _result(given: FunctionResponse, open_calls: list[dict[str, Any]], at: str) -> Inner:
    """A function's answer goes to the call of its id, else to the first open one of its name."""
    matching = [call for call in open_calls if call["id"] == given.id] if given.id else []
    matching = matching or [call for call in open_calls if call["function"]["name"] == given.name]
    if not matching:
        raise Refused(400, f"no earlier functionCall is called {quoted(given.name)}", param=at)
    open_calls.remove(matching[0])
    return {"role": "tool", "tool_call_id": matching[0]["id"], "content": _output(given.response)}


def _output(response: dict[str, Any]) -> str:
    """A response that is one text in a field of its own is that text."""
    only = next(iter(response.items()), ("", None))
    if len(response) == 1 and only[0] in _OUTPUTS and isinstance(only[1], str):
        return only[1]
    return json.dumps(response, ensure_ascii=False)


def _say(messages: list[Inner], part: dict[str, Any]) -> None:
    if messages and messages[-1]["role"] == "user":
        messages[-1]["content"].append(part)
    else:
        messages.append({"role": "user", "content": [part]})


def _part(part: Part) -> dict[str, Any] | None:
    if part.inline_data:
        return _image(part.inline_data)
    return {"type": "text", "text": part.text} if part.text is not None else None


def _image(blob: Blob) -> dict[str, Any]:
    data = blob.data.replace("-", "+").replace("_", "/")
    return {"type": "image_url", "image_url": {"url": f"data:{blob.mime_type};base64,{data}"}}


def _simple(message: Inner) -> Inner:
    """Text alone is a plain string: clients split it as they like."""
    content = message["content"]
    if isinstance(content, list) and all(part["type"] == "text" for part in content):
        return {**message, "content": "".join(part["text"] for part in content)}
    return message
