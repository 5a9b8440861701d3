"""What the environment advises after a failure: what to do, in the language of who asked, without what was printed."""

import pytest

from drivetrain.common.events import Message
from drivetrain.judge.chain import Chain
from drivetrain.judge.hints import LONGEST, SHORTEST, Leaks, accept
from drivetrain.judge.sources.base import Case
from drivetrain.judge.sources.environment import Environment
from drivetrain.judge.sources.environment.remedies import ADVICE


async def hints(output: str, asked: str = "Do it.", command: str = "run it", said: str = "") -> tuple[str, ...]:
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": f'{{"command": "{command}"}}'}}
    reply: Message = {"role": "assistant", "content": "", "tool_calls": [call]}
    after: list[Message] = [{"role": "tool", "tool_call_id": "c", "content": output}]
    after += [{"role": "user", "content": said}] if said else []
    return (await Chain([Environment()]).judge(Case(({"role": "user", "content": asked},), reply, tuple(after)))).hints


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("bash: line 1: jq: command not found", "is installed"),
        ("cat: notes/a.md: No such file or directory", "List the folder"),
        ("Exit code: 1\nmkdir: cannot create directory '/opt/x': Permission denied", "rights"),
        ("Exit code: 7\ncurl: (7) Failed to connect to localhost port 80: Connection refused", "server runs"),
        (
            "Traceback (most recent call last):\n  File 'a.py', line 2\nModuleNotFoundError: No module named 'yaml'",
            "module",
        ),
        ("Traceback (most recent call last):\n  File 'a.py', line 2\nTypeError: can only concatenate str", "type"),
        ("Exit code: 1\n  File 'a.py', line 2\n    def f(:\n          ^\nSyntaxError: invalid syntax", "syntax"),
        ("Exit code: 1\nApp.java:7: error: cannot find symbol", "names it offers"),
        ("Exit code: 1\nError: in prepare, no such column: price", "tables and their columns"),
        ("error: patch failed: a.py:3\nerror: a.py: patch does not apply", "Read the file"),
        ("Exit code: 2\nmake: *** No rule to make target 'lint'.  Stop.", "targets"),
        ("Error: element ref e9 not found, take a new snapshot", "fresh snapshot"),
        ("Exit code: 124\ncommand timed out after 30 s", "time limit"),
        (
            "== short test summary ==\nFAILED tests/test_a.py::test_b - assert 1 == 2\n1 failed, 3 passed in 0.1s",
            "failing test",
        ),
    ],
)
async def test_a_failure_is_advised_by_how_it_reads(output: str, told: str) -> None:
    (hint,) = await hints(output)
    assert told in hint


async def test_advice_is_in_the_language_of_who_asked() -> None:
    (hint,) = await hints("bash: jq: command not found", asked="统计一下行数")
    assert hint == "调用命令前先确认已安装，没有就换一个有的。"


@pytest.mark.parametrize(
    ("output", "command"),
    [
        ("README.md\nsrc", "ls"),
        ("Exit code: 0\nerror: no such file, as the log of yesterday says", "cat old.log"),
        ("Exit code: 1\nsomething only this program says", "run it"),
        ("all good", "run it"),
    ],
)
async def test_what_is_no_failure_or_an_unknown_one_gives_none(output: str, command: str) -> None:
    assert await hints(output, command=command) == ()


async def test_a_failure_that_was_looked_for_gives_none() -> None:
    assert await hints("cat: a.txt: No such file or directory", asked="Is there a file a.txt?") == ()


async def test_advice_that_a_tool_printed_is_refused_as_a_leak() -> None:
    assert await hints("jq: command not found. Check that a program is installed before calling it.") == ()


def test_all_advice_is_fit_to_be_a_hint() -> None:
    for one in ADVICE:
        for text in (one.english, one.chinese):
            assert accept([text], Leaks.of([])) == [text], text
            assert len(text) <= LONGEST
        assert len(one.english) >= SHORTEST
    assert len({one.english for one in ADVICE}) == len({one.chinese for one in ADVICE}) == len(ADVICE)
