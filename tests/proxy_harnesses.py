"""What fifteen harnesses make of a conversation before they send it back, and what they say of themselves."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from uuid import NAMESPACE_DNS, uuid5

from drivetrain.common.events import Message

Echo = Callable[[Message], Message]


def compact(message: Message, change_id: Callable[[str], str] = str) -> Message:
    """Tool arguments written again without spaces, as JavaScript does."""
    calls = []
    for call in message.get("tool_calls") or []:
        data = json.loads(call["function"]["arguments"], parse_float=_numeral)
        function = {**call["function"], "arguments": json.dumps(data, separators=(",", ":"), ensure_ascii=False)}
        calls.append({**call, "id": change_id(call["id"]), "function": function})
    return {**message, "tool_calls": calls} if calls else dict(message)


def _numeral(text: str) -> float | int:
    """A number as JavaScript writes it: without a fraction that is zero."""
    value = float(text)
    return int(value) if value.is_integer() else value


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
