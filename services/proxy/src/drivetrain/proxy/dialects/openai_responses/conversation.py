"""The items of a request as the messages of OpenAI chat.

What one reply brought comes back as several items in a row (reasoning, message, calls): they are one message again.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from drivetrain.common.events import Message as Inner
from drivetrain.proxy.dialects.openai_responses.items import (
    AdditionalTools,
    Call,
    Content,
    CustomCall,
    CustomOutput,
    FunctionCall,
    FunctionOutput,
    InputImage,
    Item,
    Message,
    Output,
    Reasoning,
    Refusal,
)
from drivetrain.proxy.dialects.openai_responses.tools import Named, as_arguments
from drivetrain.proxy.dialects.sealing import unseal
from drivetrain.proxy.errors import Refused, quoted


def conversation(instructions: str | None, given: str | list[Item], *, open_ended: bool) -> list[Inner]:
    """All messages, instructions first. Those that open the conversation are one message. An `open_ended` request goes
    on from an earlier reply, whose calls are not among its items.

    Raises:
        Refused: there is nothing to answer, or a result without its call.
    """
    items: Sequence[Item] = [Message("user", given)] if isinstance(given, str) else given
    messages: list[Inner] = [{"role": "system", "content": instructions}] if instructions else []
    called: set[str] = set()
    for index, item in enumerate(items):
        _add(messages, item, called, f"input[{index}]", open_ended=open_ended)
    if not any(message["role"] not in ("system", "developer") for message in messages):
        raise Refused(400, "there is nothing to answer", param="input")
    return messages


def _add(messages: list[Inner], item: Item, called: set[str], at: str, *, open_ended: bool) -> None:
    match item:
        case Message(role="assistant"):
            reply = _reply(messages)
            reply["content"] = (reply["content"] or "") + _words(item.content)
        case Message():
            _heard(messages, item)
        case Reasoning():
            if thought := _thought(item):
                reply = _reply(messages, begins=True)
                reply["reasoning_content"] = reply.get("reasoning_content", "") + thought
        case FunctionCall() | CustomCall():
            called.add(item.call_id)
            _reply(messages).setdefault("tool_calls", []).append(_call(item))
        case FunctionOutput() | CustomOutput():
            if item.call_id not in called and not open_ended:
                words = f"no earlier call has the call_id {quoted(item.call_id)}"
                raise Refused(400, words, param=f"{at}.call_id")
            messages += _result(item)
        case AdditionalTools():
            pass


def _reply(messages: list[Inner], *, begins: bool = False) -> Inner:
    """The model's own message that is being put together. Reasoning after anything else begins the next one."""
    last = messages[-1] if messages else None
    if last is None or last["role"] != "assistant" or (begins and (last["content"] or "tool_calls" in last)):
        last = {"role": "assistant", "content": None}
        messages.append(last)
    return last


def _heard(messages: list[Inner], item: Message) -> None:
    """What others than the model say. Instructions that open the conversation join those before them."""
    content = _parts(item.content)
    opens = len(messages) == 1 and messages[0]["role"] in ("system", "developer")
    if opens and item.role in ("system", "developer") and isinstance(content, str):
        messages[0] = {"role": "system", "content": f"{messages[0]['content']}\n\n{content}"}
        return
    if item.role in ("system", "developer") and not isinstance(content, str):
        raise Refused(400, f"a {item.role} message shows no images: show them in a user message", param="input")
    messages.append({"role": "system" if item.role == "developer" else item.role, "content": content})


def _thought(item: Reasoning) -> str:
    if item.content:
        return "".join(part.text for part in item.content)
    return unseal(item.encrypted_content or "")


def _call(item: Call) -> dict[str, Any]:
    free = isinstance(item, CustomCall)
    arguments = as_arguments(item.input) if isinstance(item, CustomCall) else item.arguments
    name = Named(item.name, item.namespace, free).function
    return {"id": item.call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _result(item: Output) -> list[Inner]:
    """A tool's answer. Its images are shown by the user after it: chat templates have a place for them there."""
    parts = [] if isinstance(item.output, str) else item.output
    text = item.output if isinstance(item.output, str) else _words(parts)
    shown = [_part(part) for part in parts if isinstance(part, InputImage)]
    told: Inner = {"role": "tool", "tool_call_id": item.call_id, "content": text}
    return [told, {"role": "user", "content": shown}] if shown else [told]


def _parts(content: str | list[Content]) -> Any:
    """Content as chat has it. Text alone is a plain string: clients turn one into the other."""
    if isinstance(content, str) or not any(isinstance(part, InputImage) for part in content):
        return _words(content)
    return [_part(part) for part in content]


def _words(content: str | Iterable[Content]) -> str:
    if isinstance(content, str):
        return content
    return "".join(_text(part) for part in content if not isinstance(part, InputImage))


def _text(part: Content) -> str:
    assert not isinstance(part, InputImage)
    return part.refusal if isinstance(part, Refusal) else part.text


def _part(part: Content) -> dict[str, Any]:
    if isinstance(part, InputImage):
        return {"type": "image_url", "image_url": {"url": part.image_url}}
    return {"type": "text", "text": _text(part)}
