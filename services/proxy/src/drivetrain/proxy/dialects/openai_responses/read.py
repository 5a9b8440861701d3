"""A request of OpenAI Responses as what is asked, in the form of OpenAI chat."""

from typing import Any

import msgspec

from drivetrain.common.events import Sampling
from drivetrain.proxy.dialects.openai_responses.body import SUPPORT, AllowedTools, Body, NamedChoice
from drivetrain.proxy.dialects.openai_responses.conversation import conversation
from drivetrain.proxy.dialects.openai_responses.items import AdditionalTools
from drivetrain.proxy.dialects.openai_responses.tools import Named, Offered, offered
from drivetrain.proxy.dialects.reading import hints_of, parse, typed
from drivetrain.proxy.engines.grammar import json_of
from drivetrain.proxy.errors import Refused, quoted
from drivetrain.proxy.turns import Ask

LOGPROBS = "message.output_text.logprobs"
REPEATED = ("instructions", "max_output_tokens", "previous_response_id", "text", "tool_choice", "tools", "metadata")
"""Fields of the request that the answer repeats."""


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """What only this dialect's writer reads of a request."""

    names: dict[str, Named]
    repeated: dict[str, Any]
    sealed: bool


def read(data: bytes) -> Ask:
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    raw = parse(data)
    body = typed(_with_types(raw), SUPPORT, Body)
    found = offered(_tools(body))
    chosen, must_call = _choice(body, found)
    include = body.include or []
    if body.top_logprobs and LOGPROBS not in include:
        raise Refused(400, f"top_logprobs needs include: [{LOGPROBS!r}]", param="top_logprobs")
    return Ask(
        model=body.model,
        continues=_continued(body),
        messages=conversation(body.instructions, body.input, open_ended=body.previous_response_id is not None),
        tools=chosen,
        server_tools=found.server,
        must_call=must_call,
        one_call=body.parallel_tool_calls is False,
        sampling=Sampling(
            temperature=1.0 if body.temperature is None else body.temperature,
            top_p=1.0 if body.top_p is None else body.top_p,
            max_tokens=body.max_output_tokens,
            other=_form(body),
        ),
        stream=bool(body.stream),
        logprobs=LOGPROBS in include,
        top_logprobs=body.top_logprobs or 0,
        hints=hints_of(body),
        own=Own(
            names=found.names,
            repeated={name: raw[name] for name in REPEATED if name in raw},
            sealed="reasoning.encrypted_content" in include,
        ),
    )


def _with_types(raw: dict[str, Any]) -> dict[str, Any]:
    """Items that only have a role are messages."""
    items = raw.get("input")
    if not isinstance(items, list):
        return raw
    plain = [
        {"type": "message", **item} if isinstance(item, dict) and "role" in item and not item.get("type") else item
        for item in items
    ]
    return {**raw, "input": [_without_nulls(item) for item in plain]}


def _without_nulls(item: Any) -> Any:
    return {name: value for name, value in item.items() if value is not None} if isinstance(item, dict) else item


def _tools(body: Body) -> list[tuple[str, dict[str, Any]]]:
    """Every tool that is offered, in the request's field or by an item, with its path."""
    found = [(f"tools[{index}]", tool) for index, tool in enumerate(body.tools or ())]
    if isinstance(body.input, list):
        for at, item in enumerate(body.input):
            if isinstance(item, AdditionalTools):
                found += [(f"input[{at}].tools[{index}]", tool) for index, tool in enumerate(item.tools)]
    return found


def _continued(body: Body) -> str:
    """The turn that the request goes on from; "" for none."""
    if body.previous_response_id is None:
        return ""
    return body.previous_response_id.removeprefix("resp_") or "?"


def _choice(body: Body, found: Offered) -> tuple[list[dict[str, Any]], list[str]]:
    """The tools that are offered by the request's choice, and those of which one has to be called."""
    choice = body.tool_choice
    if choice == "none":
        return [], []
    if choice is None or choice == "auto":
        return found.functions, []
    if choice == "required":
        if not found.functions:
            raise Refused(400, "tool_choice required needs tools", param="tool_choice")
        return found.functions, list(found.names)
    return _named_choice(choice, found)


def _named_choice(choice: Any, found: Offered) -> tuple[list[dict[str, Any]], list[str]]:
    kind: type[NamedChoice] | type[AllowedTools] = NamedChoice
    if choice.get("type") == "allowed_tools":
        kind = AllowedTools
    try:
        wanted = msgspec.convert(choice, kind)
    except msgspec.ValidationError as error:
        words = "say none, auto, required, name a function or custom tool, or list allowed_tools"
        raise Refused(400, words, param="tool_choice") from error
    names = [wanted.name] if isinstance(wanted, NamedChoice) else [tool.name for tool in wanted.tools]
    if missing := [name for name in names if name not in found.names]:
        raise Refused(400, f"there is no tool {quoted(missing[0])} among the tools", param="tool_choice")
    if isinstance(wanted, NamedChoice):
        return found.functions, names
    allowed = [tool for tool in found.functions if tool["function"]["name"] in names]
    return allowed, names if wanted.mode == "required" else []


def _form(body: Body) -> dict[str, Any]:
    """The form that the reply's text must have, as sampling parameters."""
    wanted = body.text.format if body.text else None
    if wanted is None or wanted.type == "text":
        return {}
    if wanted.type == "json_schema" and wanted.schema is None:
        raise Refused(400, "json_schema needs a schema", param="text.format.schema")
    return json_of(wanted.schema if wanted.type == "json_schema" else None)
