"""The material of a question, a message a line, and the chat messages that set it apart from the instructions."""

import json
from collections.abc import Iterable, Mapping

from drivetrain.common.events import Message
from drivetrain.judge.redaction import redacted
from drivetrain.judge.sources.base import Case
from drivetrain.judge.text import bounded, content_text


def material(case: Case, limit: int, *, mask: bool) -> dict[str, str]:
    """What is graded, by part: a message a line, as JSON, so that no text can pass for a message of its own. Each
    text is cut to `limit` characters from its middle, and so is each part; `mask` hides secrets and personal data."""
    parts = {
        "CONVERSATION": (*case.history, *case.before),
        "REPLY": (case.reply,),
        "NEXT STATE": case.after,
    }
    return {name: transcript(messages, limit, mask=mask) for name, messages in parts.items()}


def transcript(messages: Iterable[Message], limit: int, *, mask: bool) -> str:
    """Messages as a part: see `material`."""
    return bounded("\n".join(_line(message, limit, mask) for message in messages), limit)


def fitted(text: str, limit: int, *, mask: bool) -> str:
    """A text cut to `limit` characters from its middle, without secrets and personal data if it is to be masked."""
    return redacted(text, limit) if mask else bounded(text, limit)


def messages_for(instructions: str, parts: Mapping[str, str], mark: str) -> list[dict[str, str]]:
    """The chat messages of one call. `mark` must not be guessable by who wrote the material."""
    body = "\n".join(f"<<{name} {mark}>>\n{text}\n<<END {mark}>>" for name, text in parts.items())
    return [{"role": "system", "content": instructions.replace("{mark}", mark)}, {"role": "user", "content": body}]


def _line(message: Message, limit: int, mask: bool) -> str:
    shown = {"role": str(message.get("role", "?")), "content": fitted(content_text(message), limit, mask=mask)}
    if calls := message.get("tool_calls"):
        shown["tool_calls"] = fitted(json.dumps(calls, ensure_ascii=False, default=str), limit, mask=mask)
    return json.dumps(shown, ensure_ascii=False)
