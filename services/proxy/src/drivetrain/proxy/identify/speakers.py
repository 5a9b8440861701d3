"""What only the conversation itself can tell: which thread of a session speaks, and if a call is beside the work."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from drivetrain.common.events import Message
from drivetrain.proxy.conversations.lineage import digest_of, text_of
from drivetrain.proxy.identify.harnesses import MARKS_THREADS
from drivetrain.proxy.turns import MAIN, Caller, Kind, KnownTurn

_HEARTBEAT = re.compile(r"HEARTBEAT_OK(?<=\bHEARTBEAT_OK)\b")  # a literal first is found ten times as fast
_COMPACTION = re.compile(r"\bsummar(?:y|i[sz]e|i[sz]ing)\b[^.\n]{0,60}\b(?:conversation|session)\b", re.IGNORECASE)
_COMMIT = re.compile(r"\bcommit messages?\b", re.IGNORECASE)
_BEGINNING = 300


class Opening(msgspec.Struct, frozen=True):
    """How a conversation begins: digests of its system prompt and of its first other message, and if it has tools."""

    system: str
    first: str
    tools: bool


def opening_of(messages: Sequence[Message], *, tools: bool) -> Opening:
    """How this conversation begins."""
    at = next((i for i, message in enumerate(messages) if message["role"] not in ("system", "developer")), None)
    system = [text_of(message.get("content")).strip() for message in messages[:at]]
    first = text_of(messages[at].get("content")).strip() if at is not None else ""
    return Opening(digest_of(system), digest_of(first), tools)


def thread_and_kind(
    caller: Caller,
    messages: Sequence[Message],
    tools: list[dict[str, Any]],
    past: KnownTurn | None,
    first: KnownTurn | None,
) -> tuple[str, Kind]:
    """Which thread speaks, and if the call is part of the work. What the caller says comes first.

    `past` is the turn that the request continues. Without one, `first` is the turn with which the session began: a
    request that begins as that one did belongs to the main thread, whatever became of the history. One with another
    system prompt is beside the work when it has no tools and the first had, the main thread itself when it is the
    other way round (the first was a title), and else a sub-agent's.
    """
    kind: Kind = caller.kind or ("side" if beside(caller.harness, messages) else "main")
    if caller.thread or past is not None:
        return caller.thread or (past.thread if past else MAIN), kind
    if first is None or caller.harness in MARKS_THREADS:
        return MAIN, kind
    mine = opening_of(messages, tools=bool(tools))
    main = opening_of(first.messages, tools=first.tools != digest_of([]))
    if mine.system == main.system or mine.first == main.first or (mine.tools and not main.tools):
        return MAIN, kind
    if main.tools and not mine.tools:
        return MAIN, caller.kind or "side"
    return thread_name("began", mine.system + mine.first), kind


def beside(harness: str, messages: Sequence[Message]) -> bool:
    """Whether the last message asks for no work: a heartbeat, a summary with which its harness compacts, or words for a
    commit by a model that is told to do nothing else."""
    last = messages[-1] if messages else {}
    if last.get("role") != "user":
        return False
    if len(messages) == 2 and messages[0]["role"] == "system":
        told = text_of(messages[0].get("content")).lstrip()[:_BEGINNING]
        if _COMMIT.search(told):
            return True
    text = text_of(last.get("content"))
    if _HEARTBEAT.search(text):
        return True
    return harness == "claude-code" and bool(_COMPACTION.search(text.lstrip()[:_BEGINNING]))


def thread_name(how: str, text: str) -> str:
    """A thread's name: how it was told from others, and a digest of what told it."""
    return f"{how}-{digest_of(text)[:12]}"
