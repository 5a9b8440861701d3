"""Fifteen harnesses send back what they make of a conversation, and the right turn goes on: whatever they are called,
however the tree of retries and branches grows, and with another tenant saying the same words beside them."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import NAMESPACE_DNS, uuid5

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivetrain.common.events import Event, Message, Place, Sampling, TurnFollowed, TurnRecorded
from drivetrain.proxy.access.principal import Principal
from drivetrain.proxy.conversations import Conversations
from drivetrain.proxy.echoes import Where, joined, lines
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.lineage import digest_of
from drivetrain.proxy.sessions import Sessions
from drivetrain.proxy.turns import Ask, Caller, KnownTurn, Past

SECRET = b"a secret of the tests"
TOOLS = [{"type": "function", "function": {"name": "run"}}]
Echo = Callable[[Message], Message]


class Memory:
    """A session index without bounds."""

    def __init__(self) -> None:
        self.turns: list[KnownTurn] = []
        self.seen: set[tuple[str, str]] = set()

    async def find(self, digests: Sequence[str]) -> Past | None:
        found = ((known, d) for d in digests for known in reversed(self.turns) if d in known.lines)
        known = next((known for known, _ in found), None)
        return Past(known=known, prompt=[], response=[]) if known else None

    async def remember(self, known: KnownTurn) -> None:
        self.turns.append(known)

    def followed(self, known: KnownTurn, digest: str) -> bool:
        new = (known.turn, digest) not in self.seen
        self.seen.add((known.turn, digest))
        return new

    async def attempts(self, asked: str) -> list[KnownTurn]:
        return [known for known in self.turns if known.asked == asked]

    async def first(self, session: str) -> KnownTurn | None:
        return next((known for known in self.turns if known.session == session), None)


@dataclass
class World:
    """All that the proxy knows and says, with a clock that ticks at each call."""

    memory: Memory = field(default_factory=Memory)
    events: list[Event] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        self._identifier = Identifier(SECRET, "train")
        self._conversations = Conversations(cast(Sessions, self.memory), self._record, SECRET)

    def _record(self, event: Event) -> bool:
        self.events.append(event)
        return True

    def states(self, turn: str) -> list[TurnFollowed]:
        return [event for event in self.events if isinstance(event, TurnFollowed) and event.turn == turn]

    async def ask(self, tenant: str, headers: dict[str, str], ask: Ask) -> tuple[Caller, Where]:
        """A request arrives."""
        self.now += 1
        caller = self._identifier.caller(Principal(key_id="k", tenant=tenant), headers, None, ask)
        where = await self._conversations.place(caller, ask, self.now)
        await self._conversations.note(caller, ask, where, self.now)
        return caller, where

    async def answer(self, caller: Caller, where: Where, ask: Ask, reply: Message, finish: Any = "stop") -> str:
        """The turn ends; its id."""
        turn, link = f"turn{len(self.memory.turns)}", where.link
        parent = link.past.known if link and link.unchanged else None
        line, *also = lines(where.digests, ask.messages, reply, link) or [""]
        depth, tools = len(ask.messages) + 1, digest_of(ask.tools)
        event = TurnRecorded(
            tenant=caller.tenant,
            policy=caller.policy,
            session=where.speaker.session,
            turn=turn,
            parent=parent.turn if parent else None,
            thread=where.speaker.thread,
            kind=where.speaker.kind,
            prompt_ids=b"",
            response_ids=b"",
            logprobs=b"",
            versions=[],
            sampling=Sampling(),
            finish=finish,
            exact=True,
            messages=ask.messages[parent.depth if parent else 0 :],
            reply=reply,
            place=Place(line=line, also=also, asked=where.asked, depth=depth, tools=tools),
            started_at=self.now,
            finished_at=self.now,
        )
        await self._conversations.remember(event, self.now, done=caller.done)
        return turn


def compact(message: Message, change_id: Callable[[str], str] = str) -> Message:
    """Tool arguments written again without spaces, as JavaScript does."""
    calls = []
    for call in message.get("tool_calls") or []:
        arguments = json.dumps(json.loads(call["function"]["arguments"]), separators=(",", ":"), ensure_ascii=False)
        function = {**call["function"], "arguments": arguments.replace("1.0", "1")}
        calls.append({**call, "id": change_id(call["id"]), "function": function})
    return {**message, "tool_calls": calls} if calls else dict(message)


def stripped(message: Message, *, reasoning: bool) -> Message:
    """Text trimmed; reasoning trimmed or dropped."""
    result = {**message, "content": (message["content"] or "").strip()}
    thoughts = result.pop("reasoning_content", None)
    return {**result, "reasoning_content": thoughts.strip()} if thoughts and reasoning else result


def trimmed_thoughts(message: Message) -> Message:
    return {**message, "reasoning_content": (message.get("reasoning_content") or "").strip()}


def in_parts(message: Message) -> Message:
    return {**message, "content": [{"type": "text", "text": message["content"] or ""}]}


def cache_marked(messages: list[Message]) -> list[Message]:
    """The newest message is a list with a mark; the older ones lost theirs and are strings again."""
    mark = {"type": "text", "text": messages[-1]["content"], "cache_control": {"type": "ephemeral"}}
    return [*messages[:-1], {**messages[-1], "content": [mark]}]


def volatile(messages: list[Message]) -> list[Message]:
    """One more user message at the end, other words each time, which the next request does not have."""
    return [*messages, {"role": "user", "content": f"internal context {len(messages)}"}]


@dataclass(frozen=True)
class Harness:
    """What a harness makes of replies and of the whole history, and what it says of itself."""

    name: str
    echo: Echo = dict
    sends: Callable[[list[Message]], list[Message]] = list
    headers: Callable[[str, str], dict[str, str]] = lambda session, agent: {}
    hints: Callable[[str], dict[str, str]] = lambda session: {}
    unchanged: bool = True


def codex(session: str, agent: str) -> dict[str, str]:
    meta = json.dumps({"request_kind": "turn", "thread_id": agent or session})
    return {"session-id": session, "thread-id": agent or session, "x-codex-turn-metadata": meta}


def claude(session: str, agent: str) -> dict[str, str]:
    named = {"x-claude-code-agent-id": agent} if agent else {}
    return {"x-claude-code-session-id": session, **named}


def opencode(session: str, agent: str) -> dict[str, str]:
    own = agent or session
    parent = {"x-parent-session-id": session} if agent else {}
    return {"x-session-id": own, "x-session-affinity": own, **parent}


def nanobot(session: str, agent: str) -> dict[str, str]:
    return {"x-session-affinity": "0" * 32}


HARNESSES = [
    Harness("codex", headers=codex),
    Harness("claude-code", in_parts, cache_marked, claude),
    Harness("pi", compact),
    Harness("gemini", lambda message: compact(message, lambda _: "made by the client")),
    Harness("qwen", lambda message: trimmed_thoughts(compact(message))),
    Harness("cline", compact),
    Harness("opencode", compact, cache_marked, opencode),
    Harness(
        "openclaw",
        lambda message: stripped(compact(message, lambda name: name.replace("_", "")), reasoning=False),
        volatile,
        unchanged=False,
    ),
    Harness("mini-swe-agent"),
    Harness("aider"),
    Harness("openhands", hints=lambda session: {"prompt_cache_key": str(uuid5(NAMESPACE_DNS, session))}),
    Harness("terminus-2", headers=lambda session, agent: {"x-session-id": session}),
    Harness("browser-use"),
    Harness("hermes", lambda message: stripped(compact(message), reasoning=False)),
    Harness("nanobot", lambda message: stripped(message, reasoning=True), headers=nanobot),
]
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


SYSTEM: Message = {"role": "system", "content": "You work."}


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


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def said(text: str) -> Message:
    return {"role": "assistant", "content": text}


class Talk:
    """One speaker who says nothing of himself, unless headers are given."""

    def __init__(self, world: World, tools: list[dict[str, Any]] | None = None, **headers: str) -> None:
        self.world, self.tools = world, TOOLS if tools is None else tools
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def say(
        self, messages: list[Message], reply: Message, finish: str = "stop", **hints: str
    ) -> tuple[str, Where]:
        ask = Ask(model="default", messages=messages, tools=self.tools, hints=hints)
        caller, where = await self.world.ask("anna", self.headers, ask)
        return await self.world.answer(caller, where, ask, reply, finish), where


def parent_of(where: Where) -> str | None:
    return where.link.past.known.turn if where.link else None


async def test_a_volatile_last_message_is_no_part_of_the_next_state() -> None:
    talk = Talk(World())
    first, _ = await talk.say([SYSTEM, user("a"), user("context 1")], said("b"))
    _, where = await talk.say([SYSTEM, user("a"), said("b"), user("c"), user("context 2")], said("d"))
    assert parent_of(where) == first
    assert [state.messages for state in talk.world.states(first)] == [[user("c")]]
    # A retry with another context is the same attempt's, and no second next state.
    _, again = await talk.say([SYSTEM, user("a"), said("b"), user("c"), user("context 3")], said("e"))
    assert len(talk.world.states(first)) == 1
    assert again.asked == where.asked


async def test_two_messages_of_a_user_are_both_next_state_when_none_is_volatile() -> None:
    talk = Talk(World())
    first, _ = await talk.say([SYSTEM, user("a")], said("b"))
    await talk.say([SYSTEM, user("a"), said("b"), user("c"), user("d")], said("e"))
    assert [state.messages for state in talk.world.states(first)] == [[user("c"), user("d")]]


@pytest.mark.parametrize("merged", [True, False], ids=["qwen", "hermes"])
async def test_a_reply_resumed_after_a_cut_is_found_merged_or_as_it_was(*, merged: bool) -> None:
    talk, resume = Talk(World()), user("go on where you were cut")
    cut, _ = await talk.say([SYSTEM, user("a")], said("It is "), "error")
    rest, where = await talk.say([SYSTEM, user("a"), said("It is "), resume], said("Paris."))
    assert parent_of(where) == cut
    assert where.link
    assert where.link.unchanged
    history = [said("It is Paris.")] if merged else [said("It is"), resume, said("Paris.")]
    _, last = await talk.say([SYSTEM, user("a"), *history, user("thanks")], said("d"))
    assert parent_of(last) == rest
    assert last.link
    assert last.link.unchanged != merged
    assert [state.messages for state in talk.world.states(rest)] == [[user("thanks")]]
    assert len({known.session for known in talk.world.memory.turns}) == 1


async def test_a_reply_cut_twice_is_found_merged() -> None:
    talk, resume = Talk(World()), user("go on")
    await talk.say([user("a")], said("one "), "error")
    await talk.say([user("a"), said("one "), resume], said("two "), "aborted")
    rest, _ = await talk.say([user("a"), said("one two "), resume], said("three"))
    _, last = await talk.say([user("a"), said("one two three"), user("b")], said("c"))
    assert parent_of(last) == rest


async def test_joined_halves_keep_their_calls() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    whole = joined(said("a "), {**said("b"), "tool_calls": [call]})
    assert whole == {"role": "assistant", "content": "a b", "tool_calls": [call]}


async def test_the_attempt_that_comes_back_counts_and_the_others_are_superseded() -> None:
    talk = Talk(World(), x_session_id="s")
    attempts = [(await talk.say([user("a")], said(f"try {i}")))[0] for i in range(3)]
    await talk.say([user("a"), said("try 1"), user("b")], said("c"))
    kinds = [[state.kind for state in talk.world.states(turn)] for turn in attempts]
    assert kinds == [["superseded"], ["messages"], ["superseded"]]
    assert not any(state.trainable for turn in (attempts[0], attempts[2]) for state in talk.world.states(turn))


async def test_branches_that_both_go_on_both_get_their_next_state() -> None:
    talk = Talk(World(), x_session_id="s")
    one, two = [(await talk.say([user("a")], said(text)))[0] for text in ("x", "y")]
    _, first = await talk.say([user("a"), said("x"), user("b")], said("c"))
    _, second = await talk.say([user("a"), said("y"), user("b")], said("d"))
    assert (parent_of(first), parent_of(second)) == (one, two)
    for turn in (one, two):
        assert [s.messages for s in talk.world.states(turn) if s.kind == "messages"] == [[user("b")]]


async def test_the_last_attempt_of_a_session_that_is_done_supersedes_the_others() -> None:
    talk = Talk(World(), x_session_id="s", x_session_done="1")
    cut, _ = await talk.say([user("a")], said("It"), "aborted")
    whole, _ = await talk.say([user("a")], said("It is"))
    assert [[state.kind for state in talk.world.states(turn)] for turn in (cut, whole)] == [["superseded"], ["ended"]]


async def test_a_cut_first_request_and_its_retry_are_one_session_and_two_whole_ones_are_not() -> None:
    talk = Talk(World())
    _, cut = await talk.say([user("a")], said("It"), "aborted")
    _, again = await talk.say([user("a")], said("It is"))
    assert again.speaker.session == cut.speaker.session
    await talk.say([user("b")], said("c"))
    _, other = await talk.say([user("b")], said("c"))
    assert other.speaker.session not in {known.session for known in talk.world.memory.turns[:-1]}
    await talk.say([user("d")], said("It"), "aborted")
    talk.world.now += 3600
    _, later = await talk.say([user("d")], said("It"))
    assert later.speaker.session != talk.world.memory.turns[-2].session
