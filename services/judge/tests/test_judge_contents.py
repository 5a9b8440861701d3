"""What looks like a failure and is none: contents, searches, marks; and that anything at all can be read."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.common.events import Message
from drivetrain.judge.sources.base import Case
from drivetrain.judge.sources.environment import Environment
from tests.judge_tools import REPLY, call, tool, votes

CONTENTS = [
    "# shop\n\nA cart.\n\n## Known errors\n\nError: cart is empty\n",
    "import sys\n\n\ndef main():\n    raise ValueError('no such file')\n\nError: x",
    "09:14 ERROR mail: connection refused\n09:20 INFO queue drained",
    "6:Traceback (most recent call last):\n7-  File \"/app/mail.py\", line 41",
    "== 1 failed, 3 passed in 0.1s ==\nHow a failed run of pytest ends.\n\nsee also\n- exit codes\n- Error: lines",
]  # fmt: skip


@pytest.mark.parametrize("text", CONTENTS)
@pytest.mark.parametrize(
    "reply",
    [
        call("bash", command="cat README.md"),
        call("exec_command", cmd="cd docs && grep -n -A4 Traceback app.log | head -5"),
        call("read_file", path="README.md"),
        call("shell", command=["bash", "-lc", "sed -n 1,20p notes.md"]),
        {"role": "assistant", "content": "```mswea_bash_command\ncat notes.md\n```"},
        {"role": "assistant", "content": '{"plan": "look", "commands": [{"keystrokes": "tail -5 notes.md\\n"}]}'},
    ],
)
async def test_what_a_file_contains_is_no_error_of_reading_it(reply: Message, text: str) -> None:
    assert [value for value, _ in await votes(tool(text), reply=reply)] == [0]
    missing = tool("cat: notes.md: No such file or directory")
    assert [value for value, _ in await votes(missing, reply=reply)] == [-1]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("grep -rn kafka .", "\n\nCommand exited with code 1"),
        ("command -v ffmpeg", '{"output": "", "exit_code": 1, "error": null}'),
        ("diff a b", "1c1\n< a\n---\n> b\nExit code: 1"),
        ("ls CHANGELOG* 2>/dev/null", "(no output)\n\nCommand exited with code 2"),
    ],
)
async def test_a_search_without_a_find_is_information(command: str, text: str) -> None:
    assert [value for value, _ in await votes(tool(text), reply=call("bash", command=command))] == [0]
    assert [value for value, _ in await votes(tool(text), reply=call("bash", command="./deploy.sh"))] == [-1]


async def test_every_parallel_result_has_its_vote() -> None:
    results = (tool("fine"), tool("bash: x: command not found"), tool("fine too"))
    assert [value for value, _ in await votes(*results)] == [0, -1, 0]
    assert (await Environment().judge(Case((), REPLY))).votes == ()


async def test_a_message_that_is_marked_as_an_error_is_one() -> None:
    assert [value for value, _ in await votes(tool("whatever it was", is_error=True))] == [-1]
    assert [value for value, _ in await votes(tool("whatever it was", is_error=False))] == [0]


@pytest.mark.parametrize(
    "text",
    [
        "<returncode>1</returncode>\n<output>too long</output>",
        "New Terminal Output:\n\ndev@box:/repo$ zstdx a.log\nbash: zstdx: command not found\ndev@box:/repo$ ",
        "Action result: could not type into element 5, it is a <div>.\nCurrent URL: https://fly.example/",
        "Observation: Error: element not found",
    ],
)
async def test_output_sent_as_the_user_is_no_reaction(text: str) -> None:
    case = Case((), REPLY, ({"role": "user", "content": text},))
    assert [vote.value for vote in (await Environment().judge(case)).votes] == [-1]
    assert case.said == []


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=1000))
async def test_any_output_can_be_read(text: str) -> None:
    assert all(value in (-1, 0, 1) and len(evidence) <= 400 for value, evidence in await votes(tool(text)))


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=9)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.sampled_from(["error", "status", "output", "exit_code", "code"])
    return st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=3)


@settings(max_examples=100, deadline=None)
@given(st.recursive(LEAVES, nested, max_leaves=12))
async def test_any_json_can_be_read(value: Any) -> None:
    read = await votes(tool(json.dumps(value)), reply=call("bash", command=value, commands=value))
    assert all(found in (-1, 0, 1) for found, _ in read)


@pytest.mark.parametrize("text", ["error " * 60_000, "a: " * 90_000, "\n" * 200_000, "{" * 100_000, "失败" * 90_000])
async def test_a_huge_output_is_read_in_bounded_time(text: str) -> None:
    started = time.process_time()
    await votes(tool(text))
    assert time.process_time() - started < 1
