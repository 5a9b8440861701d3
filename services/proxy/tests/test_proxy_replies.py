"""Sampled ids become text as they come: nothing is shown too early, nothing is lost, calls are read when whole."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.proxy.prompts.templates import Template
from drivetrain.proxy.replies.decoding import Decoder, StopCut, beginning_of
from drivetrain.proxy.replies.reader import Call, Piece, ReplyReader, hermes

Encode = Callable[[str], list[int]]
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
PIECES = st.lists(
    st.sampled_from(["a", " ", "\n", "<", "<tool", "_call>", "</", "é😀", "think>", "<think", "}"]), max_size=12
)


def read(template: Template, ids: Sequence[int], sizes: Sequence[int] = (1,), **options: Any) -> tuple[Any, list[Any]]:
    """Feed a reply in portions of the given sizes, in turn; the reader and all it showed."""
    reader = ReplyReader(template, "t" * 32, [1], options.pop("tools", []), **options)
    shown, at, turn = [], 0, 0
    while at < len(ids):
        size = sizes[turn % len(sizes)]
        shown += reader.feed(ids[at : at + size])
        at, turn = at + size, turn + 1
    return reader, shown + reader.finish()


def text(pieces: list[Any], channel: str = "content") -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Piece) and piece.channel == channel)


@settings(max_examples=100, deadline=None)
@given(said=st.text(max_size=40), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_text_comes_out_whole_in_any_portions(template: Template, encode: Encode, said: str, sizes: list[int]) -> None:
    if said.lstrip().startswith("<") or "<|" in said:
        said = "x" + said.replace("<|", "")
    reader, shown = read(template, encode(said), sizes)
    assert text(shown) == said
    assert reader.message["content"] == said


@settings(max_examples=100, deadline=None)
@given(parts=PIECES, sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_portions_never_change_what_is_read(
    template: Template, encode: Encode, parts: list[str], sizes: list[int]
) -> None:
    ids = encode("".join(parts))
    whole, shown_at_once = read(template, ids, [max(len(ids), 1)], tools=TOOLS)
    portions, shown = read(template, ids, sizes, tools=TOOLS)
    assert portions.message == whole.message
    for channel in ("content", "reasoning"):
        assert text(shown, channel) == text(shown_at_once, channel)


def test_a_split_character_is_shown_when_it_is_whole(template: Template, encode: Encode) -> None:
    ids = encode("é😀")[:-1]
    decoder = Decoder(template.tokenizer, template.hidden_ids, template.marker_ids)
    shown = [decoder.feed([token]) for token in ids]
    assert "".join(shown) == "é😀"
    assert "�" not in "".join(shown)
    cut = Decoder(template.tokenizer, template.hidden_ids, template.marker_ids)
    assert cut.feed(ids[:-1]) in ("é", "")


def test_plain_text_is_shown_token_by_token(template: Template, encode: Encode) -> None:
    ids = encode("The capital of France is Paris.")
    reader = ReplyReader(template, "t", [1], [])
    immediate = [bool(reader.feed([token])) for token in ids[:-1]]
    assert all(immediate)


def test_text_is_held_only_while_a_marker_may_have_begun(template: Template) -> None:
    reader = ReplyReader(template, "t", [1], TOOLS)
    reader._decoder.feed = lambda ids: "".join(map(chr, ids))  # type: ignore[method-assign]
    assert text(reader.feed([ord(c) for c in "a <tool"])) == "a"
    assert text(reader.feed([ord("x")])) == " <toolx"


def test_reasoning_is_apart(template: Template, encode: Encode) -> None:
    reader, shown = read(template, encode("<think>\nso\n</think>\n\nParis"))
    assert (text(shown, "reasoning"), text(shown)) == ("so", "Paris")
    assert reader.message == {"role": "assistant", "content": "Paris", "reasoning_content": "so"}


def test_reasoning_without_an_end_stays_reasoning(template: Template, encode: Encode) -> None:
    reader, _ = read(template, encode("<think>never ends")[:-1])
    assert reader.message == {"role": "assistant", "content": "", "reasoning_content": "never ends"}


def test_reasoning_that_the_prompt_opened_is_continued(template: Template, encode: Encode) -> None:
    prompt = template.render([{"role": "user", "content": "x"}], []) + encode("<think>\n")[:-1]
    reader = ReplyReader(template, "t", prompt, [])
    pieces = reader.feed(encode("so</think>Paris")) + reader.finish()
    assert (text(pieces, "reasoning"), text(pieces)) == ("so", "Paris")


def test_calls_are_read_with_the_text_around_them(template: Template, encode: Encode) -> None:
    one = json.dumps({"name": "weather", "arguments": {"city": "Paris"}})
    two = json.dumps({"name": "weather"})
    reader, shown = read(
        template, encode(f"See:\n<tool_call>{one}</tool_call>\n<tool_call>\n{two}\n</tool_call> done"), tools=TOOLS
    )
    assert text(shown) == "See:done"
    assert [(call.name, json.loads(call.arguments)) for call in reader.calls] == [
        ("weather", {"city": "Paris"}),
        ("weather", {}),
    ]


@pytest.mark.parametrize("broken", ["<tool_call>{not json}</tool_call>", '<tool_call>{"arguments": {}}</tool_call>'])
def test_a_call_that_cannot_be_read_is_shown_as_it_was_said(template: Template, encode: Encode, broken: str) -> None:
    reader, shown = read(template, encode("See " + broken), tools=TOOLS)
    assert reader.calls == []
    assert text(shown) == "See" + broken


def test_a_call_is_given_as_soon_as_it_is_whole_and_text_goes_on_after_it(template: Template, encode: Encode) -> None:
    reader = ReplyReader(template, "t", [1], TOOLS)
    block = '<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>'
    assert reader.feed(encode(f"See {block[:-1]}")[:-1]) == [Piece("content", "See")]
    (call,) = reader.feed(encode(">")[:-1])
    assert call == Call("call_t0", "weather", '{"city": "Paris"}')
    shown = reader.feed(encode(f"\n{block} and")[:-1]) + reader.finish()
    assert [type(part) for part in shown] == [Call, Piece]
    assert text(shown) == "and"


def test_a_call_in_reasoning_that_ends_later_is_a_draft(template: Template, encode: Encode) -> None:
    said = '<think>maybe <tool_call>{"name": "weather"}</tool_call> no</think>Rain.'
    reader, shown = read(template, encode(said), tools=TOOLS)
    assert reader.calls == []
    assert text(shown, "reasoning") == 'maybe <tool_call>{"name": "weather"}</tool_call> no'
    assert text(shown) == "Rain."


def test_an_unfinished_character_at_the_end_is_shown_as_such(template: Template, encode: Encode) -> None:
    _, shown = read(template, encode("Hi 🙃")[:-2])
    assert text(shown).startswith("Hi ")
    assert text(shown).endswith("�")


def test_without_tools_a_marker_is_text(template: Template, encode: Encode) -> None:
    said = 'x <tool_call>{"name": "weather"}</tool_call>'
    reader, shown = read(template, encode(said))
    assert (text(shown), reader.calls) == (said, [])


def test_special_tokens_are_never_shown(template: Template, encode: Encode) -> None:
    _, shown = read(template, encode("a<|im_start|>b"))
    assert text(shown) == "ab"


@given(
    st.text(alphabet="abc", max_size=12),
    st.lists(st.text(alphabet="abc", min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_a_stop_string_cuts_at_its_first_place_in_any_portions(said: str, stops: list[str]) -> None:
    cut = StopCut(stops)
    shown = "".join(cut.feed(character) for character in said) + cut.finish()
    # A character at a time the first stop string to be complete ends the text, the earliest beginning of those.
    ends = [i for i in range(1, len(said) + 1) if any(said[:i].endswith(stop) for stop in stops)]
    expected = said if not ends else said[: min(ends[0] - len(s) for s in stops if said[: ends[0]].endswith(s))]
    assert shown == expected


def test_the_beginning_of_a_marker_is_found_at_the_end_only() -> None:
    assert beginning_of("abc <to", ["<tool_call>"]) == 3
    assert beginning_of("<to abc", ["<tool_call>"]) == 0
    assert beginning_of("a</thi", ["<think>", "</think>"]) == 5
    assert beginning_of("", ["x"]) == 0


@pytest.mark.parametrize("block", ["", "[]", "null", '{"name": 1}', '{"name": ""}', "{"])
def test_a_block_that_is_no_call(block: str) -> None:
    assert hermes(block) is None
