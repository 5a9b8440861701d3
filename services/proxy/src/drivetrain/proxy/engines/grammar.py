"""Replies that are held to a form: JSON of a schema, or a call of a tool. The engine enforces it while it samples."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from drivetrain.proxy.errors import Refused
from drivetrain.proxy.turns import Ask

PARAMETER = "structured_outputs"
"""The sampling parameter that carries the form. Logprobs sampled under it are not those of plain sampling."""

CallForm = Literal["json", "qwen_xml", "glm_xml", "glm_xml_lines"]
"""How a model writes what is in a `<tool_call>` block: JSON with name and arguments; `<function=…>` with
`<parameter=…>`; the name and `<arg_key>`, on one line or on lines of their own."""

_FORMS: dict[CallForm, tuple[str, str, str]] = {
    "json": ('<tool_call>\n{{"name": {json}, "arguments": ', "json", "}\n</tool_call>"),
    "qwen_xml": ("<tool_call>\n<function={name}>\n", "qwen_xml", "\n</function>\n</tool_call>"),
    "glm_xml": ("<tool_call>{name}", "glm_xml", "</tool_call>"),
    "glm_xml_lines": ("<tool_call>{name}\n", "glm_xml", "\n</tool_call>"),
}
"""What is before the arguments, the style in which the engine knows them, and what is after them."""


def json_of(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Sampling parameters for a reply that is JSON of a schema, or any JSON object without one."""
    return {PARAMETER: {"json_object": True} if schema is None else {"json": schema}}


def held(ask: Ask, *, form: CallForm | None, reasons_first: bool) -> Ask:
    """The ask with sampling that makes the reply a call of one of `must_call`, in the model's own form of calls. Where
    the prompt has begun to reason (`reasons_first`), the form begins after the reasoning, whichever form it is.

    Raises:
        Refused: a call is required of a model that writes calls in a form that cannot be held to.
    """
    if ask.must_call:
        if form is None:
            why = "writes its calls in a form that cannot be held to"
            raise Refused(400, f"a call cannot be required of this model, which {why}: use auto", param="tool_choice")
        return _holding(ask, _calls(ask.must_call, ask.tools, form), reasons_first=reasons_first)
    wanted = ask.sampling.other.get(PARAMETER)
    if wanted is None or not reasons_first:
        return ask
    schema = {"type": "json_schema", "json_schema": wanted.get("json", {"type": "object"})}
    return _holding(ask, schema, reasons_first=True)


def _holding(ask: Ask, form: dict[str, Any], *, reasons_first: bool) -> Ask:
    if reasons_first:
        reasoning = {"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": "</think>"}
        pause = {"type": "const_string", "value": "\n\n"}
        form = {"type": "sequence", "elements": [reasoning, pause, form]}
    tag = json.dumps({"type": "structural_tag", "format": form})
    sampling = msgspec.structs.replace(ask.sampling, other={**ask.sampling.other, PARAMETER: {"structural_tag": tag}})
    return msgspec.structs.replace(ask, sampling=sampling)


def _calls(names: Sequence[str], tools: Sequence[dict[str, Any]], form: CallForm) -> dict[str, Any]:
    """One or more calls in `<tool_call>` blocks, nothing else."""
    functions = [tool["function"] for tool in tools if tool["function"]["name"] in names]
    tags = [_tag(function["name"], function.get("parameters"), form) for function in functions]
    return {"type": "tags_with_separator", "tags": tags, "separator": "\n", "at_least_one": True}


def _tag(name: str, parameters: dict[str, Any] | None, form: CallForm) -> dict[str, Any]:
    begin, style, end = _FORMS[form]
    content = {"type": "json_schema", "json_schema": parameters or {"type": "object"}}
    return {
        "type": "tag",
        "begin": begin.format(name=name, json=json.dumps(name)),
        "content": content if style == "json" else {**content, "style": style},
        "end": end,
    }
