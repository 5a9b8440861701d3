"""What the conversation itself says of who speaks: threads, and calls beside the work."""

from typing import Any

import pytest

from drivetrain.common.events import Message
from drivetrain.proxy.conversations.lineage import digest_of
from drivetrain.proxy.identify.speakers import beside, thread_and_kind
from drivetrain.proxy.turns import Caller, KnownTurn
from tests import proxy_world
from tests.proxy_world import user

TOOLS = [{"type": "function", "function": {"name": "run"}}]


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def known(messages: list[Message], tools: list[Any], thread: str = "main") -> KnownTurn:
    return proxy_world.known(messages=messages, depth=len(messages) + 1, tools=digest_of(tools), thread=thread)


WORK = [system("You write code."), user("Fix it")]


@pytest.mark.parametrize(
    ("messages", "tools", "thread", "kind"),
    [
        ([system("You write code."), user("Something else")], TOOLS, "main", "main"),
        ([system("You write code. It is Tuesday."), user("Fix it")], TOOLS, "main", "main"),
        ([system("You make titles."), user("Title for: Fix it")], [], "main", "side"),
        ([system("You look for files."), user("Find it")], TOOLS, "began", "main"),
    ],
)
def test_without_marks_the_beginning_of_a_conversation_tells(
    messages: list[Message], tools: list[Any], thread: str, kind: str
) -> None:
    found = thread_and_kind(Caller(tenant="t", policy="p", session="s"), messages, tools, None, known(WORK, TOOLS))
    assert (found[0].partition("-")[0], found[1]) == (thread, kind)


def test_two_agents_are_two_threads_and_each_goes_on_in_its_own() -> None:
    caller = Caller(tenant="t", policy="p", session="s")
    one, two = (
        thread_and_kind(caller, [system("You search."), user(task)], TOOLS, None, known(WORK, TOOLS))[0]
        for task in ("x", "y")
    )
    assert one != two
    assert thread_and_kind(caller, [], TOOLS, known([], TOOLS, one), None) == (one, "main")


def test_work_that_comes_after_its_title_is_the_main_thread() -> None:
    caller, title = Caller(tenant="t", policy="p", session="s"), [system("You make titles."), user("Title, please")]
    assert thread_and_kind(caller, WORK, TOOLS, None, known(title, [])) == ("main", "main")


def test_a_harness_that_names_its_agents_is_believed() -> None:
    caller = Caller(tenant="t", policy="p", session="s", harness="claude-code")
    assert thread_and_kind(caller, [system("Other"), user("x")], TOOLS, None, known(WORK, TOOLS)) == ("main", "main")


def test_heartbeats_and_summaries_for_compaction_are_beside_the_work() -> None:
    assert beside("", [*WORK, user("Nothing to do? Then say HEARTBEAT_OK.")])
    assert beside("claude-code", [*WORK, user("Write a summary of the conversation so far.")])
    assert not beside("", [*WORK, user("Write a summary of the conversation so far.")])
    assert beside("", [{"role": "system", "content": "You write one-line commit messages."}, user("+ hello")])
    assert not beside("", [{"role": "system", "content": "You are brief."}, user("Write a commit message.")])
    assert not beside("claude-code", [*WORK, user("Fix the summary page.")])
    assert not beside("", [*WORK, {"role": "tool", "content": "HEARTBEAT_OK"}])
