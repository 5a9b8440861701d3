"""The exact prompt: recorded tokens are kept where the template allows it, and forks say so."""

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.common.tokens import pack_ids
from drivetrain.proxy.prompts import build
from drivetrain.proxy.templates import BadConversation, BadModel, Template, context_of, plain
from drivetrain.proxy.turns import KnownTurn, Past

QUESTION = {"role": "user", "content": "Hi"}
THANKS = {"role": "user", "content": "Thanks"}


def past(prompt: list[int], response: list[int], depth: int = 2) -> Past:
    known = KnownTurn(
        turn="t",
        parent=None,
        tenant="local",
        policy="default",
        session="s",
        rollout=None,
        prompt_ids=pack_ids(prompt),
        response_ids=pack_ids(response),
        messages=[QUESTION],
        reply={"role": "assistant", "content": "x"},
        depth=depth,
        tools="",
        trainable=True,
    )
    return Past(known=known, prompt=prompt, response=response)


class Bridging:
    """A template that writes a message as [role, *letters, END] and can bridge, if told so."""

    END = 99
    stop_ids = (END,)

    def __init__(self, bridged: list[int] | None = None) -> None:
        self.bridged = bridged

    def render(self, messages: Any, tools: Any, *, generation: bool = True) -> list[int]:
        ids = [i for m in messages for i in (len(m["role"]), *m["content"].encode(), self.END)]
        return ids + ([len("assistant")] if generation else [])

    def bridge(self, prompt: Any, response: Any, new: Any, tools: Any) -> list[int] | None:
        return self.bridged


def reply(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


def test_a_bridge_is_used_when_it_keeps_the_recorded_tokens() -> None:
    prompt = build(Bridging([1, 2, 3, 4]), [QUESTION, reply("a"), THANKS], [], past([1, 2], [3]), same_tools=True)
    assert (prompt.ids, prompt.shared, prompt.drift, prompt.new_ids) == ([1, 2, 3, 4], 3, "clean", [4])


def test_a_bridge_that_changes_recorded_tokens_is_not_used() -> None:
    template = Bridging([7, 7, 7, 7])
    before = template.render([QUESTION], [])
    response = [*b"a", template.END]
    prompt = build(template, [QUESTION, reply("a"), THANKS], [], past(before, response), same_tools=True)
    assert prompt.ids[: prompt.shared] == before + response


def test_recorded_tokens_are_kept_where_the_template_would_write_others() -> None:
    template = Bridging()
    before = template.render([QUESTION], [])
    sampled = [1000, template.END]
    messages = [QUESTION, reply("a"), THANKS]
    prompt = build(template, messages, [], past(before, sampled), same_tools=True)
    assert prompt.ids == before + sampled + template.render([THANKS], [])
    assert (prompt.drift, prompt.shared) == ("realigned", len(before) + 2)


def test_a_reply_that_was_cut_is_closed_as_the_template_closes() -> None:
    template = Bridging()
    before = template.render([QUESTION], [])
    prompt = build(template, [QUESTION, reply("a"), THANKS], [], past(before, [*b"a"]), same_tools=True)
    assert prompt.ids == template.render([QUESTION, reply("a"), THANKS], [])
    assert prompt.drift == "clean"


def test_a_template_that_rewrites_history_forks() -> None:
    class Rewriting(Bridging):
        def render(self, messages: Any, tools: Any, *, generation: bool = True) -> list[int]:
            return [len(messages), *super().render(messages, tools, generation=generation)]

    template = Rewriting()
    messages = [QUESTION, reply("a"), THANKS]
    prompt = build(template, messages, [], past([1, 2], [3]), same_tools=True)
    assert (prompt.ids, prompt.shared, prompt.drift) == (template.render(messages, []), 0, "forked")


def test_edited_history_after_a_known_turn_is_rendered_after_its_tokens() -> None:
    template = Bridging()
    before = template.render([QUESTION], [])
    messages = [QUESTION, reply("a"), THANKS, reply("never sampled"), QUESTION]
    prompt = build(template, messages, [], past(before, [1000, template.END]), same_tools=True)
    assert prompt.new_ids == template.render(messages[2:], [])


def test_the_real_template_is_spliced_at_its_end_token(template: Template) -> None:
    first = template.render([QUESTION], [])
    response = [*template.tokenizer.encode("S u r e", add_special_tokens=False), *template.stop_ids]
    prompt = build(template, [QUESTION, reply("S u r e"), THANKS], [], past(first, response), same_tools=True)
    assert prompt.ids[: prompt.shared] == first + response
    assert template.tokenizer.decode(prompt.new_ids) == "\n<|im_start|>user\nThanks<|im_end|>\n<|im_start|>assistant\n"


def test_messages_are_made_plain_for_templates() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    assert plain({"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}) == {
        "role": "system",
        "content": "ab",
    }
    made = plain({"role": "assistant", "content": None, "tool_calls": [call]})
    assert made["content"] == ""
    assert made["tool_calls"][0]["function"] == {"name": "f", "arguments": {"a": 1}}


def test_what_the_template_refuses_is_said_in_its_words(model_folder: Path, tmp_path: Path) -> None:
    template = Template(str(model_folder))
    template.tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(BadConversation, match="roles must alternate"):
        template.render([QUESTION], [])


def test_a_model_without_a_tokenizer_or_template_is_named(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadModel, match="does not exist"):
        Template(str(tmp_path / "nowhere"))
    with pytest.raises(BadModel, match="no usable tokenizer"):
        Template(str(tmp_path))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((model_folder / name).read_bytes())
    with pytest.raises(BadModel, match="no chat template"):
        Template(str(tmp_path))
    with pytest.raises(BadModel, match="unknown renderer"):
        Template(str(model_folder), "klingon")


def test_whether_the_template_has_a_place_for_tools_is_known(model_folder: Path, tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((model_folder / name).read_bytes())
    (tmp_path / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    assert not Template(str(tmp_path)).renders_tools
    assert Template(str(model_folder)).renders_tools


def test_end_tokens_of_the_generation_configuration_count(model_folder: Path, tmp_path: Path) -> None:
    for path in model_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 2]}))
    assert Template(str(tmp_path)).stop_ids == [0, 2]


def test_the_context_of_a_model_is_read_from_its_configuration(model_folder: Path, tmp_path: Path) -> None:
    assert context_of(str(model_folder)) == 2000
    assert context_of(str(tmp_path)) is None
