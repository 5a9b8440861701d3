"""Results in the light of what came before: tests that turn green, errors put right, failures that were looked for."""

import json
from typing import Any

import pytest

from drivetrain.common.events import Message, Vote
from drivetrain.judge.chain import Chain
from drivetrain.judge.sources.base import Case
from drivetrain.judge.sources.environment import Environment

FAILED = "FAILED tests/test_a.py::test_x - assert 1 == 2\n===== 1 failed, 3 passed in 0.12s ====="
PASSED = "============ 4 passed in 0.10s ============"
SYSTEM: Message = {"role": "system", "content": "You work in a shell."}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def run(command: str, text: str = "", **fields: Any) -> list[Message]:
    """A turn that runs a command, and what came back."""
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    made = [{"id": command, "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": text, "tool_calls": made},
        {"role": "tool", "tool_call_id": command, "content": fields.get("result", "")},
    ]


async def vote(*messages: Message, recovery: float = 0.5) -> Vote:
    """The vote on the last reply among messages. The service loads what came before only if a source looks back."""
    last = max(i for i, message in enumerate(messages) if message["role"] == "assistant")
    replies = [i for i, message in enumerate(messages[:last]) if message["role"] == "assistant"]
    cut = replies[-1] + 1 if replies else 0
    source = Environment(recovery)
    case = Case(tuple(messages[cut:last]), messages[last], tuple(messages[last + 1 :]))
    if Chain([source]).looks_back(case):
        case = Case(case.before, case.reply, case.after, tuple(messages[:cut]))
    return (await source.judge(case)).votes[0]


EDIT = "sed -i s/a/b/ a.py"


@pytest.mark.parametrize(
    ("failed", "passed"),
    [
        (FAILED, PASSED),
        ('{"returncode": 1, "output": ".F\\n1 failed, 1 passed in 0.04s\\n"}',
        '{"returncode": 0, "output": "2 passed in 0.02s\\n"}'),
        ("Exit code 1\n..E\nRan 3 tests in 0.001s\n\nFAILED (errors=1)", "...\nRan 3 tests in 0.000s\n\nOK"),
        ("Tests:       1 failed, 5 passed, 6 total", "Tests:       6 passed, 6 total"),
        (" Tests  1 failed | 5 passed (6)", " Tests  6 passed (6)"),
        ("  5 passing (3ms)\n  1 failing", "  6 passing (3ms)"),
        ("not ok 2 - several\n# pass 1\n# fail 1", "ok 2 - several\n# pass 2\n# fail 0"),
        ("--- FAIL: TestAdd (0.00s)\nFAIL\nFAIL\tshop\t0.002s", "ok  \tshop\t0.002s"),
        ("test result: FAILED. 1 passed; 1 failed; 0 ignored", "test result: ok. 2 passed; 0 failed; 0 ignored"),
        ("Tests run: 3, Failures: 1, Errors: 0, Skipped: 0", "Tests run: 3, Failures: 0, Errors: 0, Skipped: 0"),
        ("3 examples, 1 failure", "3 examples, 0 failures"),
        ("FAILURES!\nTests: 3, Assertions: 3, Failures: 1.", "OK (3 tests, 3 assertions)"),
        ("Found 2 errors in 1 file (checked 3 source files)", "Success: no issues found in 3 source files"),
    ],
)  # fmt: skip
async def test_tests_that_pass_after_they_failed_are_progress(failed: str, passed: str) -> None:
    before = [user("fix it"), *run("make test", result=failed)]
    green = await vote(*before, *run(f"{EDIT} && make test", result=passed))
    assert (green.value, green.weight) == (1, 1)
    assert "(after: " in green.evidence
    red = await vote(*before, *run(f"{EDIT} && make test", result=failed))
    assert red.value == -1
    once_more = [*before, *run("make test", result=passed), *run("make test", result=passed)]
    assert (await vote(*once_more)).value == 0


async def test_the_run_before_may_be_some_turns_ago() -> None:
    looked = [*run("cat a.py", result="x = 1"), *run(EDIT)]
    assert (
        await vote(user("fix it"), *run("pytest", result=FAILED), *looked, *run("pytest", result=PASSED))
    ).value == 1


async def test_tests_that_fail_before_anything_was_changed_show_how_things_stand() -> None:
    first = await vote(
        SYSTEM, user("The total is wrong, fix it."), *run("cd app && pytest -q 2>&1 | tail -3", result=FAILED)
    )
    assert first.value == 0
    assert "1 failed" in first.evidence
    assert (await vote(user("Fix it."), *run(EDIT), *run("pytest -q", result=FAILED))).value == -1
    assert (await vote(user("Fix it."), *run(f"{EDIT}; pytest -q", result=FAILED))).value == -1
    missing = "ERROR: file or directory not found: tset\nExit code: 4"
    assert (await vote(user("Fix it."), *run("pytest tset", result=missing))).value == -1


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (("tar czf a.tgz log", "tar: log: Cannot stat: No such file\nCommand exited with code 2"),
        ("tar czf a.tgz logs", "logs/")),
        (("black a.py", "bash: black: command not found"), ("ruff format a.py", "1 file reformatted")),
        (("cat notes.md", "cat: notes.md: No such file or directory"), ("cat NOTES.md", "# Notes")),
    ],
)  # fmt: skip
async def test_another_action_that_works_after_an_error_earns_part_of_the_credit(
    wrong: tuple[str, str], right: tuple[str, str]
) -> None:
    before = [user("do it"), *run(wrong[0], result=wrong[1])]
    after = run(right[0], result=right[1])
    found = await vote(*before, *after, recovery=0.25)
    assert (found.value, found.weight) == (1, 0.25)
    assert wrong[1].split("\n")[0] in found.evidence
    assert (await vote(*before, *after, recovery=0)).value == 0
    assert (await vote(*before, user("Try it differently."), *after)).value == 0
    assert (await vote(*before, *run(wrong[0], result=right[1]))).value == 0
    assert (await vote(*before, *run("true && ./other.sh", result=wrong[1]))).value == -1


async def test_what_a_person_says_outweighs_that_it_works() -> None:
    wrong = run("./a.sh", result="Error: no route to host")
    assert (await vote(user("do it"), *wrong, *run("./b.sh", result="done"))).value == 1
    assert (await vote(user("do it"), *wrong, *run("./b.sh", result="done"), user("Not what I wanted."))).value == 0


async def test_a_look_between_an_error_and_its_repair_is_no_repair_and_breaks_none() -> None:
    refused = "<tool_use_error>String to replace not found in file.</tool_use_error>"
    before = [user("bump it"), *run("./edit a", result=refused)]
    look = run("cat a", result="version = 1")
    assert (await vote(*before, *look)).value == 0
    assert (await vote(*before, *look, *run("./edit b", result="replaced"))).value == 1
    assert (
        await vote(*before, *look, *run("./edit b", result="replaced"), *run("./publish", result="done"))
    ).value == 0


async def test_a_mere_look_reads_no_history() -> None:
    def looks_back(command: str, result: str) -> bool:
        reply, after = run(command, result=result)
        return Environment().looks_back(Case((), reply, (after,)))

    assert not looks_back("cat a.py", "x = 1")
    assert looks_back("cat a.py", "cat: a.py: No such file or directory")
    assert looks_back("./build.sh", "done")
    assert looks_back("pytest", PASSED)
    assert not Environment().looks_back(Case((), {"role": "assistant", "content": "Hello"}, (user("Thanks!"),)))


REFUSED = "Error: stepping, CHECK constraint failed: cents > 0 (19)\nExit code: 19"
GONE = "curl: (22) The requested URL returned error: 404\nExit code: 22"
NOTHING = "find: 'a': No such file or directory\nExit code: 1"
BROKEN = "Traceback (most recent call last):\nValueError: not enough values\nExit code: 1"


@pytest.mark.parametrize(
    ("asked", "result", "value"),
    [
        ("Prove that the database refuses negative amounts.", REFUSED, 0),
        ("`todo burn` must be refused. Is it?", REFUSED, 0),
        ("Verify that the page is gone, it should answer 404.", GONE, 0),
        ("What does parse('tomorrow') do?", BROKEN, 0),
        ("What happens if the file is empty?", BROKEN, 0),
        ("Is there a changelog?", NOTHING, 0),
        ("Is ffmpeg installed here?", "bash: ffmpeg: command not found", 0),
        ("看看页面是不是已经下线了，应该返回 404", GONE, 0),
        ("todo.json 如果坏了会怎样？试一下", BROKEN, 0),
        ("确认一下数据库会拒绝负数", REFUSED, 0),
        ("有没有 CHANGELOG？", NOTHING, 0),
        ("Store the amount.", REFUSED, -1),
        ("Fetch the page and save it.", GONE, -1),
        ("Fix the failing test.", BROKEN, -1),
        ("Show me the changelog.", NOTHING, -1),
        ("Is there a changelog?", BROKEN, -1),
        ("Convert it with ffmpeg.", "bash: ffmpeg: command not found", -1),
        ("把金额存进去", REFUSED, -1),
        ("把页面下载下来", GONE, -1),
        ("修复报错的测试", BROKEN, -1),
    ],
)
async def test_a_failure_that_was_looked_for_is_information(asked: str, result: str, value: float) -> None:
    assert (await vote(SYSTEM, user(asked), *run("./try.sh", result=result))).value == value


async def test_the_reply_may_say_what_it_is_after() -> None:
    assert (await vote(user("Go on."), *run("./try.sh", "It must be refused:", result=REFUSED))).value == 0
    assert (await vote(user("Go on."), *run("./try.sh", "Storing it.", result=REFUSED))).value == -1


async def test_what_was_asked_some_turns_ago_still_counts() -> None:
    steps = [*run("ls", result="a"), *run("./set-up.sh", result="done")]
    assert (await vote(user("Prove that it refuses."), *steps, *run("./try.sh", result=REFUSED))).value == 0
    assert (
        await vote(user("Prove that it refuses."), *steps, user("Now store 3."), *run("./try", result=REFUSED))
    ).value == -1
