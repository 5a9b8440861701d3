"""Replies that are held to a form: required calls in each model's own form, schemas, and both after reasoning."""

import json
from typing import Any

import pytest

from drivetrain.common.events import Sampling
from drivetrain.proxy.engines.grammar import PARAMETER, CallForm, held, json_of
from drivetrain.proxy.engines.wire import request_body
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.turns import Ask

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "search", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "stop"}},
]


def asked(*names: str, **other: Any) -> Ask:
    return Ask(model="m", messages=[], tools=TOOLS, must_call=list(names), sampling=Sampling(other=other))


def form_of(ask: Ask) -> dict[str, Any]:
    tag = json.loads(ask.sampling.other[PARAMETER]["structural_tag"])
    assert tag["type"] == "structural_tag"
    return dict(tag["format"])


@pytest.mark.parametrize(
    ("form", "begin", "style", "end"),
    [
        ("json", '<tool_call>\n{"name": "search", "arguments": ', None, "}\n</tool_call>"),
        ("qwen_xml", "<tool_call>\n<function=search>\n", "qwen_xml", "\n</function>\n</tool_call>"),
        ("glm_xml", "<tool_call>search", "glm_xml", "</tool_call>"),
        ("glm_xml_lines", "<tool_call>search\n", "glm_xml", "\n</tool_call>"),
    ],
)
def test_a_required_call_has_the_models_own_form(form: CallForm, begin: str, style: str | None, end: str) -> None:
    blocks = form_of(held(asked("search"), form=form, reasons_first=False))
    assert (blocks["type"], blocks["at_least_one"]) == ("tags_with_separator", True)
    (tag,) = blocks["tags"]
    assert (tag["begin"], tag["end"]) == (begin, end)
    assert (tag["content"]["json_schema"], tag["content"].get("style")) == (SCHEMA, style)


def test_any_of_the_tools_may_be_the_one_and_one_without_parameters_takes_an_object() -> None:
    tags = form_of(held(asked("search", "stop"), form="json", reasons_first=False))["tags"]
    assert [tag["content"]["json_schema"] for tag in tags] == [SCHEMA, {"type": "object"}]


@pytest.mark.parametrize(
    ("ask", "last"),
    [
        (asked("search"), "tags_with_separator"),
        (asked(**json_of(SCHEMA)), "json_schema"),
        (asked(**json_of(None)), "json_schema"),
    ],
)
def test_where_the_prompt_has_begun_to_reason_the_form_begins_after_the_reasoning(ask: Ask, last: str) -> None:
    sequence = form_of(held(ask, form="qwen_xml", reasons_first=True))
    assert sequence["type"] == "sequence"
    reasoning, pause, form = sequence["elements"]
    assert (reasoning["content"], reasoning["end"], pause["value"]) == ({"type": "any_text"}, "</think>", "\n\n")
    assert form["type"] == last


def test_a_schema_is_the_engines_own_affair_where_nothing_is_reasoned_first() -> None:
    plain, schema = asked(), asked(**json_of(SCHEMA))
    assert held(plain, form=None, reasons_first=True) is plain
    assert held(schema, form=None, reasons_first=False) is schema


def test_a_call_in_a_form_that_cannot_be_held_to_is_not_required() -> None:
    with pytest.raises(Refused, match="use auto") as caught:
        held(asked("search"), form=None, reasons_first=False)
    assert caught.value.param == "tool_choice"


def test_the_form_holds_from_the_first_token_on() -> None:
    assert json.loads(request_body("t", [1], json_of(SCHEMA)))["reasoning_ended"] is True
    assert "reasoning_ended" not in json.loads(request_body("t", [1], {}))
