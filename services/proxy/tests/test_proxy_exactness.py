"""Prompts against the model's own rendering, over long random conversations of several families of tokenizers.

A hard mismatch is a prompt other than the reference's where the harness changed nothing. There must be none.
"""

import random
import unicodedata
from collections import Counter
from functools import cache
from typing import Any

import pytest

from tests.conversations import (
    FAMILIES,
    TOOLS,
    Asked,
    Talk,
    append_only,
    calls_tools,
    load,
    reply_text,
    start,
    words,
    world,
)

load_once = cache(load)
REWRITES_SYSTEM = {"mistral_nemo"}
"""Its template moves the system message to the last question: with one, every new question rewrites history."""


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def talk_of(family: str, seed: int, *, tools: bool = False) -> Talk:
    template = load_once(family)
    return Talk(template, random.Random(f"{family} {seed}"), TOOLS if tools and calls_tools(template) else [])


def nfc(text: str) -> str:
    """Text with characters composed: some tokenizers do so before they encode."""
    return unicodedata.normalize("NFC", text)


def is_exact(talk: Talk, asked: Asked) -> bool:
    """The prompt is the reference's, and what is shared with the parent is what the parent recorded."""
    past = asked.past
    kept = not asked.prompt.shared or (
        past is not None and asked.prompt.ids[: asked.prompt.shared] == past.prompt + past.response
    )
    return kept and asked.prompt.ids == talk.reference(asked.messages)


@pytest.mark.parametrize("seed", range(3))
def test_append_only_conversations_are_exact_and_never_fork(family: str, seed: int) -> None:
    talk = talk_of(family, seed, tools=True)
    system = family not in REWRITES_SYSTEM
    asked = list(append_only(talk, 20, tools=bool(talk.tools), reasoning=False, system=system))
    assert all(is_exact(talk, one) for one in asked)
    assert [one.prompt.drift for one in asked] == ["root"] + ["clean"] * 19


def test_a_template_that_moves_its_system_message_forks_and_says_why() -> None:
    talk = talk_of("mistral_nemo", 7)
    asked = list(append_only(talk, 5, tools=False, reasoning=False))
    assert all(is_exact(talk, one) for one in asked)
    assert {(one.prompt.drift, one.prompt.cause) for one in asked[1:]} == {("forked", "template_rewrites")}


@pytest.mark.parametrize("seed", range(3))
def test_reasoning_is_kept_exactly_as_long_as_the_template_keeps_it(seed: int) -> None:
    talk = talk_of("qwen3", seed, tools=True)
    asked = list(append_only(talk, 25, tools=True, reasoning=True))
    assert all(is_exact(talk, one) for one in asked)
    for one in asked[1:]:
        expected = "clean" if one.messages[-1]["role"] == "tool" else "forked"
        assert one.prompt.drift == expected
    assert {one.prompt.cause for one in asked if one.prompt.drift == "forked"} == {"reasoning_not_kept"}


@pytest.mark.parametrize("name", ["qwen2_5", "deepseek_v3"])
def test_a_template_that_knows_no_reasoning_gets_none(name: str) -> None:
    talk = talk_of(name, 5)
    asked = list(append_only(talk, 6, tools=False, reasoning=True))
    assert all(is_exact(talk, one) for one in asked)
    assert {one.prompt.cause for one in asked[1:]} == {"reasoning_not_kept"}


@pytest.mark.parametrize("seed", range(2))
def test_tokens_that_no_tokenizer_would_choose_are_kept(family: str, seed: int) -> None:
    talk, messages = talk_of(family, seed), start(random.Random(seed), system=False)
    for _ in range(8):
        asked = talk.ask(messages)
        text = talk.template.text(messages, [])
        assert nfc(talk.template.decode(asked.prompt.ids)) == nfc(text)
        if asked.past is not None:
            assert asked.prompt.drift == "realigned"
            assert asked.prompt.cause in ("tokens", "text")
            assert nfc(text).endswith(nfc(talk.template.decode(asked.prompt.new_ids)))
            assert asked.prompt.ids[: asked.prompt.shared] == asked.past.prompt + asked.past.response
        said = "the " + words(talk.rng)
        reply = talk.say(asked, talk.sampled(said, split=True))
        assert nfc(reply["content"]) == nfc(said)
        messages = [*messages, reply, {"role": "user", "content": words(talk.rng)}]


def habit(rng: random.Random, reply: dict[str, Any]) -> dict[str, Any]:
    """A reply as harnesses send it back: trimmed, arguments in other white space, ids rewritten, reasoning dropped."""
    echo = {name: value for name, value in reply.items() if name != "reasoning_content" or rng.random() < 0.5}
    echo["content"] = (reply["content"] or "").strip()
    for call in echo.get("tool_calls", []):
        call["function"] = {**call["function"], "arguments": call["function"]["arguments"].replace('": ', '":')}
    return echo


@pytest.mark.parametrize("seed", range(2))
def test_what_harnesses_do_to_replies_does_not_fork(family: str, seed: int) -> None:
    talk, rng = talk_of(family, seed, tools=True), random.Random(seed)
    messages, system = start(rng, system=False), len(talk.tools)
    for _ in range(12):
        asked = talk.ask(messages)
        if asked.past is not None:
            assert asked.prompt.drift in ("clean", "realigned")
            assert asked.prompt.shared == len(asked.past.prompt) + len(asked.past.response)
            whole = talk.template.text(messages, talk.tools)
            assert nfc(whole).endswith(nfc(talk.template.decode(asked.prompt.new_ids)))
        text = reply_text(rng, tools=bool(system) and rng.random() < 0.5, reasoning=False)
        reply = talk.say(asked, talk.sampled(text + rng.choice(("", " ", "\n"))))
        messages = [*messages, habit(rng, reply), *world(rng, reply)]


def test_reasoning_that_a_harness_drops_is_kept_while_the_template_keeps_it() -> None:
    talk, rng = talk_of("qwen3", 3, tools=True), random.Random(3)
    messages = start(rng)
    for _ in range(6):
        asked = talk.ask(messages)
        assert asked.prompt.drift in ("root", "clean", "realigned")
        reply = talk.say(asked, talk.sampled(reply_text(rng, tools=True, reasoning=True)))
        echo = {name: value for name, value in reply.items() if name != "reasoning_content"}
        messages = [*messages, echo, *world(rng, reply)]


@pytest.mark.parametrize("seed", range(4))
def test_edits_compaction_and_branches_are_exact(family: str, seed: int) -> None:
    talk, system = talk_of(family, seed, tools=True), family not in REWRITES_SYSTEM
    rng, causes = talk.rng, Counter[str]()
    history = [start(rng, system=system)]
    for _ in range(25):
        asked = talk.ask(history[-1])
        assert is_exact(talk, asked)
        causes[asked.prompt.cause] += 1
        text = reply_text(rng, tools=bool(talk.tools) and rng.random() < 0.4, reasoning=False)
        reply = talk.say(asked, talk.sampled(text))
        longer = [*history[-1], reply, *world(rng, reply)]
        change = rng.random()
        if change < 0.2:  # another branch of an earlier request
            earlier = rng.choice(history)
            longer = [*earlier[:-1], {**earlier[-1], "content": words(rng)}]
        elif change < 0.3:  # a message in the middle is edited
            at = rng.randrange(len(longer))
            longer[at] = {**longer[at], "content": words(rng)}
        elif change < 0.4:  # the history is compacted
            longer = [*start(rng, system=system)[:-1], {"role": "user", "content": "Summary: " + words(rng, 30)}]
        history.append(longer)
    assert causes["appended"] > 0
    assert causes["first"] > 0


@pytest.mark.parametrize("name", ["qwen3", "qwen2_5"])
def test_other_tools_fork(name: str) -> None:
    talk = talk_of(name, 1, tools=True)
    messages = start(talk.rng, system=False)
    reply = talk.say(talk.ask(messages), talk.sampled("Yes"))
    talk.tools = TOOLS[:1]
    asked = talk.ask([*messages, reply, {"role": "user", "content": "Sure?"}])
    assert (asked.prompt.drift, asked.prompt.cause) == ("forked", "tools_changed")
    assert is_exact(talk, asked)
