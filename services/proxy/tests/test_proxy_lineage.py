"""Histories that mean the same find the same turn, however a harness writes them down again."""

import json
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from drivetrain.proxy.conversations.lineage import candidates, digest_of, extend, rolling

TEXT = st.text(max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
SPACE = st.text(alphabet=" \n\t", max_size=3)


def call(arguments: str, call_id: str = "call_1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": arguments}}


def message(role: str, content: Any = "", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


MESSAGES = st.lists(st.builds(message, st.sampled_from(["user", "assistant", "system"]), TEXT), min_size=1, max_size=6)


@given(JSON, st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]), TEXT)
def test_rewritten_arguments_and_ids_are_the_same_call(arguments: Any, separators: Any, call_id: str) -> None:
    said = message("assistant", None, tool_calls=[call(json.dumps(arguments))])
    echoed = message("assistant", "", tool_calls=[call(json.dumps(arguments, separators=separators), call_id)])
    assert rolling("s", [said]) == rolling("s", [echoed])


@given(TEXT, SPACE, SPACE)
def test_trimmed_text_and_text_in_parts_are_the_same(text: str, before: str, after: str) -> None:
    said = message("assistant", before + text + after, reasoning_content="because")
    parts = message("assistant", [{"type": "text", "text": text[:3]}, {"type": "text", "text": text[3:]}])
    assert rolling("s", [said]) == rolling("s", [message("assistant", text)]) == rolling("s", [parts])


@given(MESSAGES, st.data())
def test_one_changed_message_changes_every_later_digest_and_no_earlier(messages: list[Any], data: Any) -> None:
    at = data.draw(st.integers(0, len(messages) - 1))
    changed = [*messages]
    changed[at] = message("user", messages[at]["content"] + "!")
    one, two = rolling("s", messages), rolling("s", changed)
    assert one[:at] == two[:at]
    assert not set(one[at:]) & set(two[at:])


@given(MESSAGES)
def test_digests_extend_a_message_at_a_time_and_never_cross_scopes(messages: list[Any]) -> None:
    digests = rolling("s", messages)
    assert extend(digests[0], message("user", "x")) == rolling("s", [messages[0], message("user", "x")])[1]
    assert rolling("s", messages[:-1]) == digests[:-1]
    assert not set(digests) & set(rolling("t", messages))


def test_text_does_not_pass_for_a_call_nor_one_role_for_another() -> None:
    different = [
        message("assistant", "a"),
        message("user", "a"),
        message("assistant", "a", tool_calls=[call("{}")]),
        message("assistant", "a", tool_calls=[call("{}"), call("{}")]),
        message("assistant", "a", tool_calls=[call('"{}"')]),
        message("tool", "a", tool_call_id="call_1"),
    ]
    assert len({rolling("s", [one])[0] for one in different}) == len(different)


def test_developer_and_system_are_one_role() -> None:
    assert rolling("s", [message("developer", "x")]) == rolling("s", [message("system", "x")])


def test_candidates_are_earlier_replies_longest_first() -> None:
    roles = ["user", "assistant", "user", "assistant", "tool", "user"]
    messages = [message(role, str(i)) for i, role in enumerate(roles)]
    assert candidates(list("abcdef"), messages) == ["d", "b"]
    assert candidates(list("abcd"), messages[:4]) == ["b"]
    assert candidates(list("a"), messages[:1]) == []


def test_the_order_of_keys_does_not_matter_for_tools() -> None:
    assert digest_of([{"a": 1, "b": {"c": 2, "d": 3}}]) == digest_of([{"b": {"d": 3, "c": 2}, "a": 1}])
    assert digest_of([]) != digest_of([{}])


def test_a_long_history_costs_little() -> None:
    messages: list[dict[str, Any]] = [message("system", "x" * 20_000)]
    for i in range(133):
        call = {"id": f"c{i}", "function": {"name": "run", "arguments": json.dumps({"command": f"ls {i}", "n": 1.5})}}
        messages += [
            message("user", f"question {i} " * 20),
            {"role": "assistant", "content": "words " * 30, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{i}", "content": f"line {i}\n" * 40},
        ]
    times = []
    for _ in range(20):
        started = time.thread_time()
        candidates(rolling("scope", messages), messages)
        times.append(time.thread_time() - started)
    assert min(times) < 0.002
