"""Fifteen harnesses send back what they make of a conversation, and the right turn goes on: however the tree of retries
and branches grows, and with another tenant saying the same words beside them."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivetrain.common.events import Message
from drivetrain.proxy.turns import Ask
from tests.proxy_harnesses import HARNESSES, Harness
from tests.proxy_world import SYSTEM, TOOLS, World

ONE_SHOT = ("aider", "browser-use")
ONGOING = [harness for harness in HARNESSES if harness.name not in ONE_SHOT]
NAMES_AGENTS = [harness for harness in HARNESSES if harness.name in ("codex", "claude-code", "opencode")]

TEXT = st.text(max_size=12)
ARGUMENTS = st.dictionaries(TEXT, TEXT | st.integers(-9, 9) | st.just(1.0) | st.lists(st.booleans()), max_size=3)


@dataclass(frozen=True)
class Step:
    """The conversation goes on from the `back`-th last whole attempt, and is answered; `cut` attempts come before."""

    back: int
    text: str
    reply: str
    arguments: list[dict[str, Any]]
    cut: int


STEPS = st.lists(
    st.builds(
        Step, st.sampled_from([0, 0, 0, 1, 2]), TEXT, TEXT, st.lists(ARGUMENTS, max_size=2), st.sampled_from([0, 0, 1])
    ),
    min_size=1,
    max_size=6,
)


def reply_of(step: Step, number: int) -> Message:
    """A reply as the proxy sends it; no two are the same."""
    calls = [
        {"id": f"call_{number}_{i}", "type": "function", "function": {"name": "run", "arguments": json.dumps(given)}}
        for i, given in enumerate(step.arguments)
    ]
    message: Message = {"role": "assistant", "content": f" {step.reply}{number}\n", "reasoning_content": " hm\n"}
    return {**message, "tool_calls": calls} if calls else message


def world_after(reply: Message | None, text: str) -> list[Message]:
    results = [{"role": "tool", "tool_call_id": c["id"], "content": text} for c in (reply or {}).get("tool_calls", [])]
    return results or [{"role": "user", "content": f"{text}?"}]


async def live(
    world: World, harness: Harness, who: tuple[str, str, str], steps: list[Step], beside: list[tuple[str, str, str]]
) -> None:
    """One conversation tree of each speaker (tenant, session, agent), all with the same words, checked at each step."""
    # Per speaker, for each whole turn: its id, the history with its reply, and the reply as the harness keeps it.
    known: dict[tuple[str, str, str], list[tuple[str | None, list[Message], Message | None]]] = {
        speaker: [(None, [SYSTEM], None)] for speaker in (who, *beside)
    }
    sessions: dict[tuple[str, str], set[str]] = {}
    for number, step in enumerate(steps):
        for speaker, nodes in known.items():
            tenant, session, agent = speaker
            parent, history, before = nodes[max(1, len(nodes) - 1 - step.back)] if nodes[1:] else nodes[0]
            messages = [*history, *world_after(before, f"{step.text}{number if step.back else ''}")]
            ask = Ask(
                model="default", messages=harness.sends(messages), tools=TOOLS, hints=dict(harness.hints(session))
            )
            for _ in range(step.cut):
                caller, where = await world.ask(tenant, harness.headers(session, agent), ask)
                await world.answer(caller, where, ask, {"role": "assistant", "content": ""}, "aborted")
            caller, where = await world.ask(tenant, harness.headers(session, agent), ask)
            found = where.link.past.known if where.link else None
            assert (found.turn if found else None) == parent, (harness.name, speaker)
            assert found is None or (found.tenant, found.thread) == (tenant, where.speaker.thread)
            assert (where.speaker.thread == "main") == (not agent)
            assert where.speaker.kind == "main"
            if where.link and harness.unchanged:
                assert where.link.unchanged
            reply = reply_of(step, number)
            turn = await world.answer(caller, where, ask, reply)
            nodes.append((turn, [*messages, harness.echo(reply)], reply))
            sessions.setdefault((tenant, session), set()).add(where.speaker.session)
    assert all(len(found) == 1 for found in sessions.values())
    named = [next(iter(found)) for found in sessions.values()]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("harness", ONGOING, ids=lambda harness: harness.name)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_every_harness_continues_its_own_turn_and_no_other_tenants(harness: Harness, steps: list[Step]) -> None:
    asyncio.run(live(World(), harness, ("anna", "s1", ""), steps, [("ben", "s1", "")]))


@pytest.mark.parametrize("harness", NAMES_AGENTS, ids=lambda harness: harness.name)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_named_agents_do_not_meet_though_they_say_the_same(harness: Harness, steps: list[Step]) -> None:
    speakers = [("anna", "s1", "agent1"), ("anna", "s1", "agent2"), ("anna", "s2", "")]
    asyncio.run(live(World(), harness, ("anna", "s1", ""), steps, speakers))
