"""A chat request as what is asked."""

from collections.abc import Sequence
from typing import Any

from drivetrain.common.events import Message
from drivetrain.proxy.dialects.openai import sampling_of
from drivetrain.proxy.dialects.openai_chat.body import SUPPORT, Body, Image, NamedChoice
from drivetrain.proxy.dialects.openai_chat.body import Message as Given
from drivetrain.proxy.dialects.reading import hints_of, parse, typed
from drivetrain.proxy.engines.grammar import json_of
from drivetrain.proxy.errors import Refused, quoted
from drivetrain.proxy.turns import Ask

_SHOWING = ("user", "tool")


def read(data: bytes) -> Ask:
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    raw = parse(data)
    body = typed(raw, SUPPORT, Body)
    _check_messages(body.messages)
    return Ask(
        model=body.model,
        messages=_said(raw["messages"]),
        tools=raw.get("tools", []) if body.tool_choice != "none" else [],
        must_call=_must_call(body),
        one_call=body.parallel_tool_calls is False,
        sampling=sampling_of(body, body.max_completion_tokens or body.max_tokens, _form(body)),
        stop=body.stops,
        stream=bool(body.stream),
        usage_chunk=bool(body.stream_options and body.stream_options.include_usage),
        logprobs=bool(body.logprobs),
        top_logprobs=_tops(body),
        token_ids=bool(body.return_token_ids),
        replies=body.n or 1,
        hints=hints_of(body),
    )


def _said(messages: list[Message]) -> list[Message]:
    """The messages without those in which a model said nothing: harnesses keep one for an attempt that failed."""
    return [message for message in messages if not _is_nothing(message)] or messages


def _is_nothing(message: Message) -> bool:
    return message["role"] == "assistant" and not any(
        message.get(name) for name in ("content", "tool_calls", "reasoning_content")
    )


def _check_messages(messages: Sequence[Given]) -> None:
    asked = False
    for index, message in enumerate(messages):
        asked = asked or bool(message.tool_calls)
        if message.role == "tool" and not asked:
            raise Refused(400, "a tool result needs an earlier message with tool_calls", param=f"messages[{index}]")
        if message.role == "tool" and not message.tool_call_id:
            raise Refused(400, "a tool result needs a tool_call_id", param=f"messages[{index}].tool_call_id")
        parts = message.content if isinstance(message.content, list) else ()
        if message.role not in _SHOWING and any(isinstance(part, Image) for part in parts):
            words = f"a {message.role} message shows no images: show them in a user message"
            raise Refused(400, words, param=f"messages[{index}].content")
        if message.role != "assistant" and message.content is None:
            raise Refused(400, f"a {message.role} message needs content", param=f"messages[{index}].content")


def _must_call(body: Body) -> list[str]:
    """The tools of which one has to be called; none if the model may choose."""
    names = [tool.function.name for tool in body.tools or ()]
    if isinstance(body.tool_choice, NamedChoice):
        name = body.tool_choice.function.name
        if name not in names:
            raise Refused(400, f"there is no tool {quoted(name)} among the tools", param="tool_choice")
        return [name]
    if body.tool_choice != "required":
        return []
    if not names:
        raise Refused(400, "tool_choice required needs tools", param="tool_choice")
    return names


def _tops(body: Body) -> int:
    if body.top_logprobs and not body.logprobs:
        raise Refused(400, "top_logprobs needs logprobs: true", param="top_logprobs")
    return body.top_logprobs or 0


def _form(body: Body) -> dict[str, Any]:
    """The form that the reply's text must have, as sampling parameters."""
    wanted = body.response_format
    if wanted is None or wanted.type == "text":
        return {}
    if wanted.type == "json_object":
        return json_of(None)
    if wanted.json_schema is None or wanted.json_schema.schema is None:
        raise Refused(400, "json_schema needs a schema", param="response_format.json_schema.schema")
    return json_of(wanted.json_schema.schema)
