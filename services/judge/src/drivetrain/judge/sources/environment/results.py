"""Tool results out of the wrappings of their harnesses: the exit code, the text itself, and what JSON fields say."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from drivetrain.common.events import Message
from drivetrain.judge.sources.base import is_observation
from drivetrain.judge.sources.environment.families import Kind
from drivetrain.judge.sources.environment.families.tools import of_field
from drivetrain.judge.text import bounded, content_text

LONGEST_LINE = 400
EDGE = 6
"""Lines at the beginning and at the end of a result in which a harness puts its own words."""

_CODE = re.compile(
    r"\s*(?:"
    + "|".join(
        (
            r"<returncode>\s*(-?\d{1,10})\s*</returncode>",
            r"<exit_?code>\s*(-?\d{1,10})\s*</exit_?code>",
            r"\[?(?:the |your )?(?:process|command|program|shell)?\s*(?:exited|finished|completed|failed|"
            r"terminated|returned)"
            r"(?: with)?(?: an?)?(?: exit)?(?: code| status)?[ :=]+(-?\d{1,10})\b",
            r"\[?\(?exit(?:ed)?[ _-]?(?:code|status|with(?: code| status)?)[ :=]+(-?\d{1,10})\b",
            r"\[?return[ _-]?code[ :=]+(-?\d{1,10})\b",
            r"\[?(?:退出码|退出代码|返回码|退出状态)\s*[:：=为是]?\s*(-?\d{1,10})\b",
        )
    )
    + ")",
    re.IGNORECASE,
)
"""Lines with which harnesses tell how a command ended."""

_OWN = re.compile(
    r"(?:chunk id|wall time|original token count|directory|signal|background pids|process group pgid|command)[:：] ?.*"
    r"|\[(?:current working directory|python interpreter)[:：].*\]|(?:output|error|stdout|"
    r"stderr)[:：] ?\(?(?:none|empty)\)?"
    r"|</?(?:output|returncode|stdout|stderr|tool_response)>|new terminal output:|(?:output|"
    r"stdout)[:：]\s*|\(no output\)"
    r"|\(empty\)|\S{1,40}@\S{1,60}[:~ ].*[$#%](?: .*)?",
    re.IGNORECASE,
)
"""Other lines of a harness, and prompts of a terminal with what was typed."""

_LABEL = re.compile(r"(?:output|stdout|stderr|observation|action result)[:：] ?(?=\S)", re.IGNORECASE)
_CODE_FIELDS = ("returncode", "return_code", "exit_code", "exitCode", "exit_status")
_SPEAK = {"output", "stdout", "stderr", "result", "message", "msg"}
"""Fields that hold what a tool says, where there are no others; any other field holds what it found."""
_TEXTS = ("output", "stdout", "stderr", "text", "content", "result", "message", "body", "exception_info", "msg")


class Said(NamedTuple):
    """A field of a JSON result that tells of a failure."""

    kind: Kind
    shown: str


@dataclass(frozen=True)
class Result:
    """One tool result: its text without the harness's own words, and how the call is said to have ended (`code`: an
    exit code; `said`: a field, or the harness's mark on the message; None where nothing is said)."""

    body: str
    code: int | None = None
    said: Said | None = None
    call: str | None = None

    @cached_property
    def lines(self) -> list[str]:
        """The lines that are not empty, clipped."""
        return [line[:LONGEST_LINE] for line in self.body.split("\n") if line.strip()]

    @cached_property
    def clipped(self) -> str:
        return "\n".join(line[:LONGEST_LINE] for line in self.body.split("\n"))


def results_of(messages: tuple[Message, ...]) -> list[Result]:
    """The tool results among messages, in order."""
    return [_result(message) for message in messages if is_observation(message)]


def _result(message: Message) -> Result:
    text = bounded(content_text(message))
    call = message.get("tool_call_id")
    found = _of_json(text) or _of_text(text)
    said = found.said or (Said("crash", "is_error") if message.get("is_error") is True and not found.code else None)
    return Result(found.body, found.code, said, call if isinstance(call, str) else None)


def _of_json(text: str) -> Result | None:
    """JSON as a result: what its texts say is the body; data is none. A text inside may have a wrapping of its own."""
    if not text.lstrip().startswith(("{", "[{", "[]")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return Result("")
    codes = [value[key] for key in _CODE_FIELDS if isinstance(value.get(key), int)]
    inner = _of_text("\n".join(shown for key in _TEXTS if (shown := _text(value.get(key)))))
    said = next((Said(kind, f'"{key}": {_text(v)}') for key, v in value.items() if (kind := of_field(key, v))), None)
    speaks = bool(codes) or inner.code is not None or said is not None or set(value) <= _SPEAK
    return Result(inner.body if speaks else "", codes[0] if codes else inner.code, said)


def _of_text(text: str) -> Result:
    lines = text.split("\n")
    full = [index for index, line in enumerate(lines) if line.strip()]
    edges = {*full[:EDGE], *full[-EDGE:]}
    codes = {index: code for index in sorted(edges) if (code := _code(lines[index])) is not None}
    kept = [
        _LABEL.sub("", line, count=1) if index in edges else line
        for index, line in enumerate(lines)
        if index not in edges or not (index in codes or _OWN.fullmatch(line.strip()[:LONGEST_LINE]))
    ]
    return Result("\n".join(kept).strip("\n"), [*codes.values()][-1] if codes else None)


def _code(line: str) -> int | None:
    """The exit code that a line tells."""
    found = _CODE.match(line[:LONGEST_LINE])
    return int(found[found.lastindex or 0]) if found else None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
