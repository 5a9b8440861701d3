"""The chat template's text: the same as that of transformers, whatever the template and the conversation."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.proxy.prompts.families import PROBE_TOOL
from drivetrain.proxy.prompts.templates import Template
from drivetrain.proxy.prompts.writing import Writer

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
CALL = {"type": "function", "id": "1", "function": {"name": "probe", "arguments": {"a": [1, None, "ü"]}}}
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": TEXT},
        optional={"reasoning_content": TEXT, "name": st.none() | TEXT, "tool_calls": st.just([CALL])},
    ),
    min_size=1,
    max_size=6,
)


@given(MESSAGES, st.sampled_from([[], [PROBE_TOOL]]), st.booleans())
def test_any_conversation_is_written_as_transformers_writes_it(
    template: Template, messages: list[dict[str, Any]], tools: list[dict[str, Any]], generation: bool
) -> None:
    expected = template.tokenizer.apply_chat_template(
        messages, tools=tools or None, add_generation_prompt=generation, tokenize=False
    )
    writer = Writer(template.tokenizer)
    assert writer.straight
    assert writer.write(messages, tools, generation=generation) == expected


@pytest.mark.parametrize("reads", ["reasoning_content", "thinking"])
def test_reasoning_has_the_names_that_templates_read(template: Template, reads: str) -> None:
    source = "{%- for message in messages %}{{ message." + reads + " or '' }}|{%- endfor %}"
    tokenizer = SimpleNamespace(special_tokens_map={}, get_chat_template=lambda template, tools: source)
    tokenizer.apply_chat_template = lambda messages, **options: template.tokenizer.apply_chat_template(
        messages, chat_template=source, **options
    )
    writer = Writer(tokenizer)
    assert writer.straight
    thought = [{"role": "assistant", "content": "yes", "reasoning_content": "Why not"}]
    assert writer.write(thought, [], generation=True) == "Why not|"


def test_where_they_differ_transformers_writes(template: Template) -> None:
    tokenizer = SimpleNamespace(
        special_tokens_map={},
        get_chat_template=lambda template, tools: "{{ messages[0].content }}",
        apply_chat_template=lambda messages, **options: "something else",
    )
    writer = Writer(tokenizer)
    assert not writer.straight
    assert writer.write([{"role": "user", "content": "Hi"}], [], generation=True) == "something else"
