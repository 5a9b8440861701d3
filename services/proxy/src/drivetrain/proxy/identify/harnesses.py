"""What harnesses say of themselves without being asked: their session, their sub-agents, their calls beside the work.

One table, no code for any one of them. A *source* names a value of the request: a header, `body.<hint>` for a field of
the body, `…#field` for a field of the JSON in it, `…~pattern` for the pattern's group 1 in it. A harness that sends a
value which does not name a conversation is not here: nanobot's `x-session-affinity` is new with each process.
"""

import re
from collections.abc import Mapping

import msgspec

_UUID = r"~^([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$"
_LONGEST = 256


class Harness(msgspec.Struct, frozen=True, kw_only=True):
    """How one harness is known and what its requests say.

    It is known when all `signs` have a value. `session` and `thread` are the first of their sources that has one; one
    without any is followed by its history, and a thread that is named like its session, or not at all, is the main one.
    A call is beside the work when one of `side`
    has one of the values given, or one of `main` has a value that is not given, or if it brings no tools and the
    harness's own work always does.
    """

    name: str
    signs: tuple[str, ...]
    session: tuple[str, ...]
    thread: tuple[str, ...] = ()
    side: Mapping[str, tuple[str, ...]] = {}
    main: Mapping[str, tuple[str, ...]] = {}
    always_tools: bool = False


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What a request's own marks say; `main` None and `session` "" when they say nothing."""

    harness: str = ""
    session: str = ""
    thread: str = ""
    main: bool | None = None


_CODEX, _AGENT = "x-codex-turn-metadata", "x-openai-subagent"

HARNESSES = (
    Harness(
        name="codex",
        signs=("session-id", "thread-id"),
        session=("session-id",),
        thread=("thread-id",),
        side={_AGENT: ("compact", "memory_consolidation")},
        main={f"{_CODEX}#request_kind": ("turn",)},
    ),
    Harness(
        name="claude-code",
        signs=("x-claude-code-session-id",),
        session=("x-claude-code-session-id",),
        thread=("x-claude-code-agent-id",),
        always_tools=True,
    ),
    Harness(
        name="opencode",
        signs=("x-session-id", "x-session-affinity"),
        session=("x-parent-session-id", "x-session-id"),
        thread=("x-session-id",),
        always_tools=True,
    ),
    Harness(
        name="openhands",
        signs=("x-litellm-session-id",),
        session=("x-litellm-session-id",),
    ),
    Harness(name="pi", signs=("session_id",), session=("session_id",)),
    Harness(name="gemini-cli", signs=("user-agent~^GeminiCLI",), session=(), always_tools=True),
    Harness(name="qwen-code", signs=("user-agent~^QwenCode",), session=(), always_tools=True),
    Harness(
        name="claude-code-body",
        signs=("body.user_id~session_",),
        session=("body.user_id#session_id", "body.user_id~_session_([0-9a-f-]{36})$"),
        thread=("x-claude-code-agent-id",),
    ),
    Harness(
        name="cache-key",
        signs=(f"body.prompt_cache_key{_UUID}",),
        session=(f"body.prompt_cache_key{_UUID}",),
    ),
)
"""In the order in which they are tried. The last one is any client whose cache key is the id of a conversation."""

MARKS_THREADS = frozenset(harness.name for harness in HARNESSES if harness.thread)
"""Harnesses that name their sub-agents: where no name stands, the main thread speaks, whatever the content."""


def marks(headers: Mapping[str, str], hints: Mapping[str, str], *, tools: bool) -> Mark:
    """What the first harness that is known by its signs says. Header names are lower case."""
    for harness in HARNESSES:
        if all(_value(source, headers, hints) for source in harness.signs):
            return _read(harness, headers, hints, tools=tools)
    return Mark()


def _read(harness: Harness, headers: Mapping[str, str], hints: Mapping[str, str], *, tools: bool) -> Mark:
    session = _first(harness.session, headers, hints)
    thread = _first(harness.thread, headers, hints)
    beside = harness.always_tools and not tools
    beside = beside or any(_value(source, headers, hints) in known for source, known in harness.side.items())
    for source, known in harness.main.items():
        beside = beside or _value(source, headers, hints) not in ("", *known)
    return Mark(
        harness=harness.name,
        session=session,
        thread="" if thread == session else thread,
        main=False if beside else None,
    )


def _first(sources: tuple[str, ...], headers: Mapping[str, str], hints: Mapping[str, str]) -> str:
    found = (_value(source, headers, hints) for source in sources)
    return next((value for value in found if value and len(value) <= _LONGEST), "")


def _value(source: str, headers: Mapping[str, str], hints: Mapping[str, str]) -> str:
    source, _, pattern = source.partition("~")
    name, _, field = source.partition("#")
    text = hints.get(name[5:], "") if name.startswith("body.") else headers.get(name, "")
    if field:
        text = _field(text, field)
    if not pattern or not text:
        return text.strip()
    found = re.search(pattern, text)
    return found.group(found.lastindex or 0) if found else ""


def _field(text: str, field: str) -> str:
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    value = data.get(field) if isinstance(data, dict) else None
    return value if isinstance(value, str) else ""
