"""Replies of real tokenizers, token by token: pieces join to the whole decode, calls are the renderer's own."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.proxy.prompts.templates import Template
from drivetrain.proxy.replies.decoding import MARKS, Decoder, StopCut, as_said
from drivetrain.proxy.replies.reader import Call, Piece, ReplyReader
from tests.conversations import FAMILIES, TOOLS, load

load_once = cache(load)
SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4)
SEEDS = st.lists(st.integers(0, 2**31), min_size=0, max_size=30)
CALLS = ['{"name": "read", "arguments": {"a": "ü"}}', '\n{"name": "write", "arguments": {}}\n']
SAID = st.lists(
    st.sampled_from(["a", " ", "\n", "é😀", "👩‍👩‍👧", "你", "</", "<tool", "_call>", "{}", *MARKS, *CALLS]), max_size=14
)


def portions(ids: Sequence[int], sizes: Sequence[int]) -> list[Sequence[int]]:
    """The ids in portions of these sizes, in turn."""
    found, at = [], 0
    while at < len(ids):
        found.append(ids[at : at + sizes[len(found) % len(sizes)]])
        at += len(found[-1])
    return found


@cache
def short_tokens(template: Template) -> list[int]:
    """Tokens of a byte or two: random ones make broken and unusual characters."""
    vocabulary = template.tokenizer.get_vocab()
    return sorted(i for token, i in vocabulary.items() if len(token) <= 2 or token.startswith("<0x"))


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(seeds=SEEDS, sizes=SIZES, broken=st.booleans())
def test_pieces_join_to_the_whole_decode(family: str, seeds: list[int], sizes: list[int], broken: bool) -> None:
    template = load_once(family)
    pool = short_tokens(template) if broken else range(len(template.tokenizer))
    ids = [pool[seed % len(pool)] for seed in seeds]
    decoder = Decoder(template.tokenizer, frozenset(), template.marker_ids)
    shown = "".join(decoder.feed(portion) for portion in portions(ids, sizes)) + decoder.finish()
    whole = template.decode(ids)
    # With a token for each byte, a broken character takes the bytes before it along, which were shown by then
    if "\ufffd" in whole and "<0x00>" in template.tokenizer.get_vocab():
        assert "\ufffd" in shown
    else:
        assert as_said(shown) == whole


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, deadline=None)
@given(said=st.text(max_size=30), sizes=SIZES)
def test_a_reply_is_shown_whole_and_without_its_end(family: str, said: str, sizes: list[int]) -> None:
    template = load_once(family)
    said = "x" + said.replace("<", "(")
    ids = [token for token in template.encode(said) if token not in template.hidden_ids]
    reader = ReplyReader(template, "t", [1], [])
    shown = [part for portion in portions([*ids, *template.stop_ids[-1:]], sizes) for part in reader.feed(portion)]
    shown += reader.finish()
    assert "".join(part.text for part in shown if isinstance(part, Piece)) == template.decode(ids)
    assert reader.message["content"] == template.decode(ids)


@pytest.mark.parametrize("family", ["qwen3", "qwen2_5"])
@settings(max_examples=150, deadline=None)
@given(parts=SAID, sizes=SIZES)
def test_calls_are_those_of_the_renderers_own_parser(family: str, parts: list[str], sizes: list[int]) -> None:
    template = load_once(family)
    ids = [token for part in parts for token in template.encode(part)] + template.stop_ids[-1:]
    reader = ReplyReader(template, "t", [1], TOOLS)
    shown: list[Any] = [part for portion in portions(ids, sizes) for part in reader.feed(portion)] + reader.finish()
    parsed = template.renderer.parse_response(ids, tools=TOOLS, prompt_ids=[1])
    expected = [(call.name, call.arguments or {}) for call in parsed.tool_calls if call.status == "ok"]
    assert [(call.name, json.loads(call.arguments)) for call in reader.calls] == expected
    assert [part for part in shown if isinstance(part, Call)] == reader.calls
    once = ReplyReader(template, "t", [1], TOOLS)
    once.feed(ids)
    once.finish()
    assert once.message == reader.message
    reasoning = reader.message.get("reasoning_content", "").replace("<think>", "")  # the parser drops a second opener
    assert reasoning.strip() == (parsed.reasoning_content or "").strip()


def test_text_that_looks_like_a_marker_is_text_where_markers_are_tokens() -> None:
    template = load_once("qwen2_5")
    spelled = [token for letter in '<tool_call>{"name": "read"}</tool_call>' for token in template.encode(letter)]
    reader = ReplyReader(template, "t", [1], TOOLS)
    shown = reader.feed(spelled) + reader.finish()
    assert reader.calls == []
    assert shown != []
    assert reader.message["content"] == '<tool_call>{"name": "read"}</tool_call>'


def test_a_mark_in_the_text_is_no_marker() -> None:
    template = load_once("qwen2_5")
    reader = ReplyReader(template, "t", [1], TOOLS)
    reader.feed(template.encode(f"a{MARKS['<tool_call>']}b"))
    reader.finish()
    assert reader.message["content"] == "a�b"


def test_a_stop_string_may_span_tokens_and_markers() -> None:
    template = load_once("qwen2_5")
    reader = ReplyReader(template, "t", [1], [], ["d</tool_call>"])
    shown = [part for token in template.encode("no end</tool_call> more") for part in reader.feed([token])]
    assert "".join(part.text for part in shown + reader.finish() if isinstance(part, Piece)) == "no en"
    assert reader.stopped_by == "d</tool_call>"


def test_nothing_comes_after_a_stop_string() -> None:
    cut = StopCut(["END"])
    assert [cut.feed(text) for text in ("a E", "ND b", "c")] == ["a ", "", ""]
    assert cut.finish() == ""
