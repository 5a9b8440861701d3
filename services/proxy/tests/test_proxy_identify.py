"""Who is speaking: what key, path, headers, body and harness say, in that order; then what the content says."""

import json
import time
from typing import Any

import pytest

from drivetrain.common.events import Message, RolloutRef
from drivetrain.common.identity import RolloutKey, rollout_session, session_id
from drivetrain.proxy.access.principal import Principal
from drivetrain.proxy.conversations.lineage import candidates, digest_of, rolling
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.identify.speakers import beside, thread_and_kind
from drivetrain.proxy.turns import Ask, Caller, KnownTurn

SECRET = b"a secret of the tests"
TOOLS = [{"type": "function", "function": {"name": "run"}}]
UUID, AGENT = "0199d3a1-7b1c-7d2e-8f00-000000000001", "0199d3a1-7b1c-7d2e-8f00-000000000002"
CODEX = {"session-id": UUID, "thread-id": UUID}
CLAUDE = {"x-claude-code-session-id": UUID}
OPENCODE = {"x-session-id": "ses_1", "x-session-affinity": "ses_1"}


def who(
    headers: dict[str, str] | None = None,
    path: str | None = None,
    tools: list[Any] | None = None,
    principal: Principal | None = None,
    **hints: str,
) -> Caller:
    ask = Ask(model="p", messages=[], tools=TOOLS if tools is None else tools, hints=hints)
    return Identifier(SECRET, "train").caller(principal or Principal(key_id="k"), headers or {}, path, ask)


def named(name: str, tenant: str = "local") -> str:
    return session_id(SECRET, tenant, "p", name)


def meta(**fields: str) -> dict[str, str]:
    return {"x-codex-turn-metadata": json.dumps(fields)}


@pytest.mark.parametrize(
    ("headers", "hints", "session"),
    [
        (CODEX, {}, UUID),
        (CLAUDE, {}, UUID),
        ({}, {"user_id": json.dumps({"device_id": "d", "session_id": UUID})}, UUID),
        ({}, {"user_id": f"user_ab_account__session_{UUID}"}, UUID),
        (OPENCODE, {}, "ses_1"),
        ({"x-litellm-session-id": "oh"}, {"prompt_cache_key": UUID}, "oh"),
        ({}, {"prompt_cache_key": UUID}, UUID),
        ({"session_id": "pi1", "x-client-request-id": "pi1"}, {}, "pi1"),
        ({"x-session-id": "t2"}, {"session_id": "t2"}, "t2"),
        ({}, {"session_id": "rl"}, "rl"),
    ],
)
def test_each_harness_names_its_session_its_own_way(
    headers: dict[str, str], hints: dict[str, str], session: str
) -> None:
    caller = who(headers, **hints)
    assert (caller.session, caller.thread, caller.kind) == (named(session), None, None)


@pytest.mark.parametrize(
    ("headers", "hints"),
    [
        ({}, {}),
        ({"x-session-affinity": "0" * 32}, {}),
        ({"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}, {}),
        ({}, {"prompt_cache_key": "all customers"}),
        ({}, {"user_id": "somebody"}),
        ({}, {"user_id": "session_ of nobody"}),
        ({"x-claude-code-session-id": "x" * 300}, {}),
    ],
)
def test_what_does_not_name_a_conversation_names_no_session(headers: dict[str, str], hints: dict[str, str]) -> None:
    assert who(headers, **hints).session is None


def test_the_order_is_key_path_header_body_harness() -> None:
    rollout = RolloutKey(
        rollout=RolloutRef(run="r", group="g", rollout="o", group_size=2), policy="p", expires_at=time.time()
    )
    key = Principal(key_id="k", tenant="rollouts", role="rollout", policies=("p",), rollout=rollout)
    headers, hints = {**CODEX, "x-session-id": "header"}, {"session_id": "body"}
    assert who(headers, "path", principal=key, **hints).session == rollout_session(SECRET, rollout)
    assert who(headers, "path", **hints).session == named("path")
    assert who(headers, **hints).session == named("header")
    assert who(CODEX, **hints).session == named("body")
    assert who(CODEX).session == named(UUID)


def test_a_session_of_one_tenant_is_not_anothers_and_no_key_reaches_past_its_policies() -> None:
    other = Principal(key_id="k", tenant="other")
    assert who(CODEX, principal=other).session == named(UUID, "other") != named(UUID)
    with pytest.raises(Refused) as refused:
        who(CODEX, principal=Principal(key_id="k", policies=("q",)))
    assert (refused.value.status, refused.value.param) == (403, "model")


@pytest.mark.parametrize(
    ("main", "agent"),
    [
        (CODEX, {**CODEX, "thread-id": AGENT, "x-openai-subagent": "collab_spawn"}),
        (CLAUDE, {**CLAUDE, "x-claude-code-agent-id": "a1b2c3d4e5f60718"}),
        (OPENCODE, {"x-session-id": "ses_2", "x-session-affinity": "ses_2", "x-parent-session-id": "ses_1"}),
    ],
)
def test_an_agent_is_a_thread_of_its_parents_session(main: dict[str, str], agent: dict[str, str]) -> None:
    first, second = who(main), who(agent)
    assert first.session == second.session
    assert first.thread is None
    assert second.thread
    assert second.kind is None
    assert first.scope != second.scope
    # A session that the user named keeps its agents apart too.
    assert who(agent, "mine").thread == second.thread
    assert who(agent, "mine").session == named("mine")


@pytest.mark.parametrize(
    ("headers", "tools", "kind"),
    [
        ({**CODEX, **meta(request_kind="turn")}, TOOLS, None),
        ({**CODEX, **meta(request_kind="compaction")}, [], "side"),
        ({**CODEX, "x-openai-subagent": "compact"}, [], "side"),
        ({**CODEX, "x-codex-turn-metadata": "not JSON"}, TOOLS, None),
        (CLAUDE, [], "side"),
        (OPENCODE, [], "side"),
        ({**OPENCODE, "x-turn-type": "main"}, [], "main"),
        ({"x-turn-type": "side"}, TOOLS, "side"),
        ({"x-session-id": "t-summarization-1-questions"}, [], "side"),
    ],
)
def test_calls_beside_the_work_are_known_by_their_marks(
    headers: dict[str, str], tools: list[Any], kind: str | None
) -> None:
    assert who(headers, tools=tools).kind == kind


def test_a_summary_belongs_to_the_session_that_it_summarises() -> None:
    assert who({"x-session-id": "t-summarization-1-summary"}).session == named("t")


def test_clients_may_say_it_all_in_the_body() -> None:
    caller = who(session_id="s", turn_type="side", session_done="true")
    assert (caller.session, caller.kind, caller.done) == (named("s"), "side", True)


@pytest.mark.parametrize("field", ["turn_type", "session_done"])
def test_a_field_that_means_nothing_is_refused_by_name(field: str) -> None:
    with pytest.raises(Refused) as refused:
        who(**{field: "perhaps"})
    assert (refused.value.status, refused.value.param) == (400, field)


def test_a_key_bounds_the_consent_of_its_requests() -> None:
    record = Principal(key_id="k", consent="record")
    assert who(principal=record).consent == "record"
    assert who({"x-drivetrain-record": "train"}, principal=record).consent == "record"
    assert who({"x-drivetrain-record": "off"}, principal=record).consent == "off"
    assert who({"x-drivetrain-record": "record"}).consent == "record"
    assert who().consent == "train"


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def known(messages: list[Message], tools: list[Any], thread: str = "main") -> KnownTurn:
    return KnownTurn(
        turn="t",
        parent=None,
        tenant="local",
        policy="p",
        session="s",
        rollout=None,
        prompt_ids=b"",
        response_ids=b"",
        messages=messages,
        reply={"role": "assistant", "content": ""},
        line="",
        depth=len(messages) + 1,
        tools=digest_of(tools),
        thread=thread,
        kind="main",
        trainable=True,
        finished_at=0,
    )


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
    assert not beside("claude-code", [*WORK, user("Fix the summary page.")])
    assert not beside("", [*WORK, {"role": "tool", "content": "HEARTBEAT_OK"}])


def test_a_long_history_costs_little() -> None:
    messages: list[Message] = [system("x" * 20_000)]
    for i in range(133):
        call = {"id": f"c{i}", "function": {"name": "run", "arguments": json.dumps({"command": f"ls {i}", "n": 1.5})}}
        messages += [
            user(f"question {i} " * 20),
            {"role": "assistant", "content": "words " * 30, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{i}", "content": f"line {i}\n" * 40},
        ]
    times = []
    for _ in range(20):
        started = time.thread_time()
        candidates(rolling("scope", messages), messages)
        times.append(time.thread_time() - started)
    assert min(times) < 0.002
