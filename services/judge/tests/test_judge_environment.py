"""Tool results as harnesses send them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.common.events import Message
from drivetrain.judge.sources.base import Case
from drivetrain.judge.sources.environment import Environment, needs_history

REPLY: Message = {"role": "assistant", "content": ""}
FAILED = "FAILED tests/test_a.py::test_x - assert 1 == 2\n===== 1 failed, 3 passed in 0.12s ====="
PASSED = "============ 4 passed in 0.10s ============"


def tool(text: str) -> Message:
    return {"role": "tool", "tool_call_id": "c", "content": text}


async def votes(*texts: str, before: tuple[str, ...] = ()) -> list[tuple[float, str]]:
    case = Case(tuple(tool(text) for text in before), REPLY, tuple(tool(text) for text in texts))
    return [(vote.value, vote.evidence) for vote in (await Environment().judge(case)).votes]


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("<returncode>2</returncode>\n<output>ls: cannot access</output>", "exit code 2"),
        ("Process exited with code 127", "exit code 127"),
        ('{"output": "", "exit_code": 1}', "exit code 1"),
        ("Exit code: 1\nboom", "exit code 1"),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'a'", "Traceback (most recent call last):"),
        ("  x = 1\nSyntaxError: invalid syntax", "SyntaxError: invalid syntax"),
        ("bash: foo: command not found", "bash: foo: command not found"),
        ("cat: a.txt: No such file or directory", "cat: a.txt: No such file or directory"),
        ("fatal: not a git repository", "fatal: not a git repository"),
        ('{"error": "element not found"}', '"error": "element'),
        ("error: patch does not apply", "error: patch does not apply"),
        ("Command timed out after 30 s", "Command timed out after 30 s"),
        (FAILED, "===== 1 failed, 3 passed in 0.12s ====="),
        ("Tests:       1 failed, 5 passed, 6 total", "Tests:       1 failed, 5 passed, 6 total"),
        ("--- FAIL: TestAdd (0.00s)\nFAIL", "--- FAIL: TestAdd (0.00s)"),
        ("test result: FAILED. 1 passed; 1 failed", "test result: FAILED. 1 passed; 1 failed"),
    ],
)
async def test_failures_vote_against_the_turn(text: str, evidence: str) -> None:
    ((value, seen),) = await votes(text)
    assert value == -1
    assert seen.startswith(" ".join(evidence.split()))


@pytest.mark.parametrize(
    "text",
    [
        "README.md\nsrc\ntests",
        "<returncode>0</returncode>\n<output>Traceback (most recent call last): in an old log</output>",
        '{"error": null, "result": 3}',
        "No errors were found.",
        "The weather in Oslo: 4 degrees",
        PASSED,
    ],
)
async def test_a_normal_result_is_information(text: str) -> None:
    assert [value for value, _ in await votes(text)] == [0]


async def test_tests_that_pass_after_they_failed_are_progress() -> None:
    assert [value for value, _ in await votes(PASSED, before=(FAILED,))] == [1]
    assert [value for value, _ in await votes(PASSED, before=(FAILED, "edited", PASSED))] == [0]
    assert needs_history(["written", PASSED])
    assert not needs_history([FAILED, "written"])


async def test_every_parallel_result_has_its_vote() -> None:
    assert [value for value, _ in await votes("fine", "bash: x: command not found", "fine too")] == [0, -1, 0]


async def test_shell_output_sent_as_the_user_is_no_reaction() -> None:
    case = Case((), REPLY, ({"role": "user", "content": "<returncode>1</returncode>\n<output>too long</output>"},))
    assert [vote.value for vote in (await Environment().judge(case)).votes] == [-1]
    assert case.said == []


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=1000))
async def test_any_output_can_be_read(text: str) -> None:
    assert all(value in (-1, 0, 1) and len(evidence) <= 400 for value, evidence in await votes(text))
