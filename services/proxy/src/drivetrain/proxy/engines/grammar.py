"""Replies that are held to a form: JSON of a schema, or a call of a tool. The engine enforces it while it samples."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from drivetrain.proxy.errors import Refused
from drivetrain.proxy.turns import Ask

PARAMETER = "structured_outputs"
"""The sampling parameter that carries the form. Logprobs sampled under it are not those of plain sampling."""


def json_of(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Sampling parameters for a reply that is JSON of a schema, or any JSON object without one."""
    return {PARAMETER: {"json_object": True} if schema is None else {"json": schema}}


def held_to_calls(ask: Ask, *, json_calls: bool, reasons_first: bool) -> Ask:
    """The ask with sampling that makes the reply a call of one of `must_call`, in the model's own form of calls.

    Raises:
        Refused: this model writes calls in a form that cannot be held to, or its prompt has begun to reason.
    """
    if not json_calls or reasons_first:
        why = "begins every reply by reasoning" if json_calls else "does not write its calls as JSON"
        raise Refused(400, f"a call cannot be required of this model, which {why}: use auto", param="tool_choice")
    other = {**ask.sampling.other, PARAMETER: {"structural_tag": json.dumps(_calls(ask.must_call, ask.tools))}}
    return msgspec.structs.replace(ask, sampling=msgspec.structs.replace(ask.sampling, other=other))


def _calls(names: Sequence[str], tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One or more calls in `<tool_call>` blocks, nothing else."""
    functions = [tool["function"] for tool in tools if tool["function"]["name"] in names]
    tags = [_tag(function["name"], function.get("parameters")) for function in functions]
    blocks = {"type": "tags_with_separator", "tags": tags, "separator": "\n", "at_least_one": True}
    return {"type": "structural_tag", "format": blocks}


def _tag(name: str, parameters: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "type": "tag",
        "begin": f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": ',
        "content": {"type": "json_schema", "json_schema": parameters or {"type": "object"}},
        "end": "}\n</tool_call>",
    }
