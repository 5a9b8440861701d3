"""Who is speaking: what key, path, headers, body and harness say, in that order."""

import json
import time
from typing import Any

import pytest

from drivetrain.common.events import RolloutRef
from drivetrain.common.identity import RolloutKey, rollout_session, session_id
from drivetrain.proxy.access.principal import Principal
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.turns import Ask, Caller

SECRET = b"a secret of the tests"
TOOLS = [{"type": "function", "function": {"name": "run"}}]
UUID, AGENT = "0199d3a1-7b1c-7d2e-8f00-000000000001", "0199d3a1-7b1c-7d2e-8f00-000000000002"
CODEX = {"session-id": UUID, "thread-id": UUID}
CLAUDE = {"x-claude-code-session-id": UUID}
OPENCODE = {"x-session-id": "ses_1", "x-session-affinity": "ses_1"}
GEMINI = {"user-agent": "GeminiCLI-tui/0.61.0/default (linux; x64; terminal)"}
QWEN = {"user-agent": "QwenCode/0.24.4 (linux; x64)"}


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
        (GEMINI, {}),
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
        (GEMINI, TOOLS, None),
        (GEMINI, [], "side"),
        (QWEN, [], "side"),
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
