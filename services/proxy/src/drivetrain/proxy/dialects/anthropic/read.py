"""A request of Anthropic Messages as what is asked, in the form of OpenAI chat."""

import json
from collections.abc import Sequence
from typing import Any

from drivetrain.common.events import Message as Inner
from drivetrain.common.events import Sampling
from drivetrain.proxy.dialects.anthropic.blocks import (
    AssistantBlock,
    Image,
    SystemBlock,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    UserBlock,
)
from drivetrain.proxy.dialects.anthropic.body import (
    SUPPORT,
    AssistantMessage,
    Body,
    CountBody,
    Message,
    SystemMessage,
    Tool,
)
from drivetrain.proxy.dialects.reading import hints_of, parse, typed
from drivetrain.proxy.engines.grammar import json_of
from drivetrain.proxy.errors import Refused, quoted
from drivetrain.proxy.turns import Ask

_NOT_PROSE = "x-anthropic-billing-header"
"""With this begins a system block that speaks to the provider; it differs between conversations."""


def read(data: bytes) -> Ask:
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    body = typed(parse(data), SUPPORT, Body)
    if isinstance(body.messages[-1], AssistantMessage):
        message = "the last message must be the user's: a reply cannot be begun for the model"
        raise Refused(400, message, param=f"messages[{len(body.messages) - 1}]")
    form = body.output_format or (body.output_config.format if body.output_config else None)
    return Ask(
        model=body.model,
        messages=_conversation(body),
        tools=_tools(body),
        must_call=_must_call(body),
        one_call=bool(body.tool_choice and body.tool_choice.disable_parallel_tool_use),
        sampling=Sampling(
            temperature=1.0 if body.temperature is None else body.temperature,
            top_p=1.0 if body.top_p is None else body.top_p,
            top_k=max(body.top_k or 0, 0),
            max_tokens=body.max_tokens,
            other=json_of(form.schema) if form else {},
        ),
        stop=[text for text in body.stop_sequences or [] if text],
        stream=bool(body.stream),
        hints=hints_of(body, body.metadata.user_id if body.metadata else None),
    )


def read_count(data: bytes) -> Ask:
    """The body of `count_tokens`: fields that do not change the prompt are accepted as `read` does, and not needed.

    Raises:
        Refused: as `read` does.
    """
    raw = parse(data)
    others = [name for name in raw if name in Body.__struct_fields__ and name not in CountBody.__struct_fields__]
    body = typed({name: value for name, value in raw.items() if name not in others}, SUPPORT, CountBody)
    return Ask(model=body.model, messages=_conversation(body), tools=_tools(body), hints=hints_of(body))


def _conversation(body: CountBody) -> list[Inner]:
    """All messages, instructions first. Those that open the conversation are one message."""
    system = [SystemMessage(body.system)] if body.system else []
    messages: list[Inner] = []
    called: set[str] = set()
    for index, message in enumerate([*system, *body.messages]):
        at = f"messages[{index - len(system)}]"
        for inner in _inner(message, called, at):
            if inner["role"] == "system" and len(messages) == 1 and messages[0]["role"] == "system":
                messages[0] = {"role": "system", "content": f"{messages[0]['content']}\n\n{inner['content']}"}
            else:
                messages.append(inner)
    if not messages:
        raise Refused(400, "there is nothing to answer", param="messages")
    return messages


def _inner(message: Message, called: set[str], at: str) -> list[Inner]:
    """One message as OpenAI chat has it; `called` collects the ids of calls, which results need."""
    if isinstance(message, SystemMessage):
        text = _prose(message.content)
        return [{"role": "system", "content": text}] if text else []
    if isinstance(message, AssistantMessage):
        blocks = [Text(message.content)] if isinstance(message.content, str) else message.content
        called |= {block.id for block in blocks if isinstance(block, ToolUse)}
        return [_said(blocks)]
    if isinstance(message.content, str):
        return [{"role": "user", "content": message.content}]
    return _heard(message.content, called, at)


def _prose(content: str | list[SystemBlock]) -> str:
    blocks = [Text(content)] if isinstance(content, str) else content
    return "".join(block.text for block in blocks if not block.text.startswith(_NOT_PROSE))


def _said(blocks: Sequence[AssistantBlock]) -> Inner:
    """The model's own message. Reasoning that was redacted cannot be read and is left out."""
    calls = [block for block in blocks if isinstance(block, ToolUse)]
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    message: Inner = {"role": "assistant", "content": text if text or not calls else None}
    if reasoning := "".join(block.thinking for block in blocks if isinstance(block, Thinking)):
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [_call(call) for call in calls]
    return message


def _call(call: ToolUse) -> dict[str, Any]:
    arguments = json.dumps(call.input, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _heard(blocks: Sequence[UserBlock], called: set[str], at: str) -> list[Inner]:
    """A user's blocks: each tool result is a message, and so is what is said between them. Images of results are shown
    by the user after the results: chat templates have a place for them there."""
    messages: list[Inner] = []
    shown: list[dict[str, Any]] = []
    for index, block in enumerate(blocks):
        if isinstance(block, ToolResult):
            if block.tool_use_id not in called:
                message = f"no earlier tool_use has the id {quoted(block.tool_use_id)}"
                raise Refused(400, message, param=f"{at}.content[{index}].tool_use_id")
            messages.append(_result(block))
            shown += [_part(part) for part in block.content or () if isinstance(part, Image)]
        else:
            _say(messages, [*shown, _part(block)])
            shown = []
    _say(messages, shown)
    return [_simple(message) for message in messages]


def _say(messages: list[Inner], parts: list[dict[str, Any]]) -> None:
    """Add what the user says to his message, or begin one."""
    if parts and messages and messages[-1]["role"] == "user":
        messages[-1]["content"] += parts
    elif parts:
        messages.append({"role": "user", "content": parts})


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": f"data:{block.source.media_type};base64,{block.source.data}"}}


def _simple(message: Inner) -> Inner:
    """One block of text says the same as a plain string, and clients turn one into the other."""
    content = message["content"]
    alone = isinstance(content, list) and len(content) == 1 and content[0]["type"] == "text"
    return {**message, "content": content[0]["text"]} if alone else message


def _result(block: ToolResult) -> Inner:
    parts = [Text(block.content)] if isinstance(block.content, str) else block.content or []
    texts = [part.text if isinstance(part, Text) else part.tool_name for part in parts if not isinstance(part, Image)]
    message: Inner = {"role": "tool", "tool_call_id": block.tool_use_id, "content": "\n".join(texts)}
    return message | ({"is_error": True} if block.is_error else {})


def _tools(body: CountBody) -> list[dict[str, Any]]:
    if body.tool_choice and body.tool_choice.type == "none":
        return []
    return [{"type": "function", "function": _function(tool)} for tool in body.tools or []]


def _function(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}


def _must_call(body: CountBody) -> list[str]:
    """The tools of which one has to be called; none if the model may choose."""
    names = [tool.name for tool in body.tools or ()]
    choice = body.tool_choice
    if choice is None or choice.type in ("auto", "none"):
        return []
    if not names:
        raise Refused(400, f"tool_choice {choice.type} needs tools", param="tool_choice")
    if choice.type == "any":
        return names
    if choice.name not in names:
        raise Refused(400, f"there is no tool {quoted(choice.name or '')} among the tools", param="tool_choice.name")
    return [choice.name]
