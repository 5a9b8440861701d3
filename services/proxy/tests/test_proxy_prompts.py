"""The exact prompt: recorded tokens are kept where the template allows it, and forks say so."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from drivetrain.common.tokens import pack_ids
from drivetrain.proxy.prompts.folder import context_of
from drivetrain.proxy.prompts.plain import plain
from drivetrain.proxy.prompts.prompt import build
from drivetrain.proxy.prompts.rendering import work_of
from drivetrain.proxy.prompts.templates import BadConversation, BadModel, Template
from drivetrain.proxy.turns import KnownTurn, Past

QUESTION = {"role": "user", "content": "Hi"}
THANKS = {"role": "user", "content": "Thanks"}


def past(prompt: list[int], response: list[int], *, said: str = "x", rendered: str = "") -> Past:
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
        reply={"role": "assistant", "content": said},
        line="",
        depth=2,
        tools="",
        rendered=rendered,
        kind="main",
        trainable=True,
        finished_at=0.0,
    )
    return Past(known=known, prompt=prompt, response=response)


class Letters:
    """A template that writes a message as a role's initial, its text and `!`, a token a letter. `bridged` is what its
    renderer bridges with, if it can."""

    opening = "a"
    stop_texts = ("!",)
    stop_ids = (ord("!"),)

    def __init__(self, bridged: list[int] | None = None, *, splices: bool = True) -> None:
        self.bridged, self.splices = bridged, splices

    def text(self, messages: Any, tools: Any) -> str:
        return "".join(f"{m['role'][0]}{m['content']}!" for m in messages) + self.opening

    def render(self, messages: Any, tools: Any) -> list[int]:
        return self.encode(self.text(messages, tools))

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, ids: Any) -> str:
        return "".join(map(chr, ids))

    def bridge(self, prompt: Any, response: Any, new: Any, tools: Any) -> list[int] | None:
        return self.bridged


def reply(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


TALK = [QUESTION, reply("x"), THANKS]
"""A conversation whose first turn is `past`."""

ASKED = [ord(letter) for letter in "uHi!a"]


def test_a_bridge_continues_the_recorded_tokens_without_a_rendering() -> None:
    prompt = build(Letters([7, 8]), TALK, [], past([1, 2], [3]), same_tools=True)
    assert (prompt.ids, prompt.shared, prompt.drift, prompt.new_ids) == ([1, 2, 3, 7, 8], 3, "clean", [7, 8])


def test_recorded_tokens_that_the_template_writes_too_are_clean() -> None:
    prompt = build(Letters(), TALK, [], past(ASKED, [ord("x"), ord("!")]), same_tools=True)
    assert Letters().decode(prompt.ids) == "uHi!ax!uThanks!a"
    assert (prompt.drift, prompt.cause, prompt.shared) == ("clean", "appended", len("uHi!ax!"))


def test_recorded_tokens_are_kept_where_the_template_would_write_others() -> None:
    prompt = build(Letters(), TALK, [], past(ASKED, [1000, ord("!")]), same_tools=True)
    assert prompt.ids == [*ASKED, 1000, *Letters().encode("!uThanks!a")]
    assert (prompt.drift, prompt.cause, prompt.shared) == ("realigned", "text", len(ASKED) + 2)


def test_a_reply_that_was_cut_is_closed_as_the_template_closes() -> None:
    prompt = build(Letters(), TALK, [], past(ASKED, [ord("x")]), same_tools=True)
    assert Letters().decode(prompt.ids) == "uHi!ax!uThanks!a"
    assert (prompt.drift, Letters().decode(prompt.new_ids)) == ("clean", "!uThanks!a")


def test_a_template_that_rewrites_history_forks() -> None:
    class Counting(Letters):
        def text(self, messages: Any, tools: Any) -> str:
            return f"{len(messages)}{super().text(messages, tools)}"

    template = Counting()
    prompt = build(template, TALK, [], past(template.render([QUESTION], []), [ord("x")]), same_tools=True)
    assert (prompt.ids, prompt.shared) == (template.render(TALK, []), 0)
    assert (prompt.drift, prompt.cause) == ("forked", "template_rewrites")


def test_history_that_is_not_what_was_rendered_forks() -> None:
    rendered = build(Letters(), [{"role": "user", "content": "Ho"}], [], None, same_tools=False).rendered
    prompt = build(Letters(), TALK, [], past(ASKED, [1000], rendered=rendered), same_tools=True)
    assert (prompt.drift, prompt.cause, prompt.ids) == ("forked", "history_changed", Letters().render(TALK, []))


def test_a_reply_that_quotes_the_end_of_a_reply_is_compared_token_by_token() -> None:
    talk = [QUESTION, reply("x!y"), THANKS]
    same = build(Letters(), talk, [], past(ASKED, Letters().encode("x!y!"), said="x!y"), same_tools=True)
    assert (same.drift, same.shared, Letters().decode(same.ids)) == ("clean", len("uHi!ax!y!"), "uHi!ax!y!uThanks!a")
    other = build(Letters(), talk, [], past(ASKED, [1000, ord("!")], said="x!y"), same_tools=True)
    assert (other.drift, other.cause) == ("forked", "end_unclear")


def test_reasoning_that_the_template_does_not_write_forks() -> None:
    sampled = Letters().encode("<think>why</think>x!")
    prompt = build(Letters(), TALK, [], past(ASKED, sampled), same_tools=True)
    assert (prompt.drift, prompt.cause) == ("forked", "reasoning_not_kept")
    assert prompt.ids == Letters().render(TALK, [])


def test_a_renderer_that_does_not_follow_the_template_is_never_spliced_by_it() -> None:
    prompt = build(Letters(splices=False), TALK, [], past(ASKED, [1000, ord("!")]), same_tools=True)
    assert (prompt.drift, prompt.cause, prompt.rendered) == ("forked", "renderer", "")
    exact = build(Letters(splices=False), TALK, [], past(ASKED, [ord("x"), ord("!")]), same_tools=True)
    assert (exact.drift, exact.shared) == ("clean", len("uHi!ax!"))


def test_replies_that_no_turn_recorded_are_rendered_after_the_recorded_tokens() -> None:
    messages = [*TALK, reply("never sampled"), QUESTION]
    prompt = build(Letters(), messages, [], past(ASKED, [ord("x"), ord("!")]), same_tools=True)
    assert Letters().decode(prompt.new_ids) == "uThanks!anever sampled!uHi!a"
    assert (prompt.drift, prompt.cause) == ("clean", "history_edited")


def test_a_conversation_that_is_not_known_says_whether_it_is_new() -> None:
    assert build(Letters(), [QUESTION], [], None, same_tools=False).cause == "first"
    assert build(Letters(), TALK, [], None, same_tools=False).cause == "history_unknown"


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
    shutil.copytree(model_folder, tmp_path, dirs_exist_ok=True)
    refuses = "{% if messages[1:] %}{{ raise_exception('one message only') }}{% endif %}{{ messages[0].content }}"
    (tmp_path / "chat_template.jinja").write_text(refuses)
    with pytest.raises(BadConversation, match="one message only"):
        Template(str(tmp_path)).render([QUESTION, QUESTION], [])


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


def test_known_messages_take_an_eighth_of_the_work_of_new_ones() -> None:
    messages = [{"role": "user", "content": "x" * 800}, {"role": "assistant", "content": [{"text": "y" * 80}]}]
    assert work_of(messages, 0) == 880
    assert work_of(messages, 1) == 80 + 100
    assert work_of([*messages, {"role": "user", "content": "why?"}], 2) == 4 + 110
