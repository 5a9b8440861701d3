"""The worked example of docs/judge.md is a source like any other."""

import re
from pathlib import Path
from typing import Any

from drivetrain.common.events import Message
from drivetrain.judge.app import rules
from drivetrain.judge.chain import Chain
from drivetrain.judge.settings import SOURCES, JudgeSettings
from drivetrain.judge.sources.base import Case, Source

PAGE = (Path(__file__).parents[3] / "docs" / "judge.md").read_text()


def example() -> Source:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(code.splitlines()) < 40
    names: dict[str, Any] = {}
    exec(compile(code, "docs/judge.md", "exec"), names)
    source = names["Suggestion"]()
    assert isinstance(source, Source)
    return source


def case(*results: str, said: str = "") -> Case:
    after: list[Message] = [{"role": "tool", "tool_call_id": "c", "content": text} for text in results]
    return Case((), {"role": "assistant"}, (*after, *([{"role": "user", "content": said}] if said else [])))


async def test_the_example_votes_with_evidence_at_its_place_in_the_precedence() -> None:
    source = example()
    chain = Chain([source, *rules(JudgeSettings())])
    kept = await chain.judge(case("suggestion accepted in a.py", said="That's wrong."))
    assert (kept.reward, kept.decided_by, kept.votes[0].evidence) == (1, "suggestion", "suggestion accepted in a.py")
    both = await chain.judge(case("suggestion accepted in a.py", "suggestion rejected in b.py"))
    assert both.reward == -1
    other = await Chain([source]).judge(case("2 files changed"))
    assert (other.reward, other.votes) == (None, ())


def test_the_page_names_every_source_in_its_order() -> None:
    named = re.findall(r"^\| `(\w+)` \| [^|]+ \| (?:always|unless)", PAGE, re.MULTILINE)
    assert tuple(named) == SOURCES
