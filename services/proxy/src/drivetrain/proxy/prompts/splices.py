"""Where a recorded reply ends in what the template writes, so that only what follows it needs tokens.

Tokenising is what costs; a template's text is cheap. The template writes the whole conversation as text. Its beginning
must be what it wrote when the reply was asked for (a digest tells); then comes the reply, in which reasoning must be
kept as it was sampled; what follows the reply's end is all that is new.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from drivetrain.common.events import Message
from drivetrain.proxy.conversations.lineage import text_of
from drivetrain.proxy.turns import Past

THINK_CLOSE = "</think>"

Difference = Literal["", "tokens", "text", "reasoning_dropped"]
"""How the template would write the reply: as recorded, in other tokens, in other words, or without the reasoning that
the harness dropped."""

Obstacle = Literal["renderer", "history_changed", "template_rewrites", "reasoning_not_kept", "end_unclear"]
"""Why recorded tokens cannot be kept: the renderer does not follow the template; the harness or a new template changed
earlier messages; the template writes earlier messages anew; it does not keep reasoning as it was sampled; the reply's
end is not certain."""


class Writes(Protocol):
    """What splices need of a template; see `drivetrain.proxy.prompts.templates.Template`."""

    @property
    def splices(self) -> bool: ...

    @property
    def opening(self) -> str: ...

    @property
    def stop_ids(self) -> Sequence[int]: ...

    @property
    def stop_texts(self) -> Sequence[str]: ...

    def text(self, messages: Sequence[Message], tools: list[dict[str, Any]]) -> str: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


class Spliced(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that follow the recorded ones, and the mark of the text that they belong to."""

    ids: list[int]
    rendered: str
    difference: Difference


def splice(
    template: Writes, messages: Sequence[Message], tools: list[dict[str, Any]], past: Past
) -> Spliced | Obstacle:
    """What the template writes after the recorded reply, which is the message before `past.known.depth`."""
    if not template.splices:
        return "renderer"
    at = past.known.depth - 1
    echo = restored(messages[at], past.known.reply)
    text = template.text([*messages[:at], echo, *messages[at + 1 :]], tools)
    recorded = past.known.rendered or mark(template.text(messages[:at], tools), template.opening)
    begin = length_of(text, recorded)
    if begin is None:
        return _changed(template, template.text(messages[:at], tools), recorded, text)
    end, stop = end_of_reply(text, begin, echo, template.stop_texts)
    if not stop:
        return "end_unclear"
    closed = bool(past.response) and past.response[-1] in template.stop_ids
    body = past.response[:-1] if closed else past.response
    sampled, written = template.opening + template.decode(body), text[begin:end]
    if sampled.count(THINK_CLOSE) != written.count(THINK_CLOSE):
        return "reasoning_not_kept"
    dropped = echo is not messages[at]
    as_sent = template.text(messages, tools) if dropped else text
    return Spliced(
        ids=template.encode(text[end + len(stop) :] if closed else text[end:]),
        rendered=mark(as_sent, template.opening),
        difference="reasoning_dropped" if dropped else _difference(template, sampled, written, body),
    )


def mark(text: str, opening: str) -> str:
    """Length and digest of what a template wrote before it asked for the reply."""
    history = text.removesuffix(opening) if opening else text
    return f"{len(history)}:{_digest(history)}"


def length_of(text: str, marked: str) -> int | None:
    """The length of the marked text, if this text begins with it."""
    length, _, digest = marked.partition(":")
    return int(length) if _digest(text[: int(length)]) == digest else None


def restored(echo: Message, reply: Message) -> Message:
    """The echo of a reply, with the reasoning that harnesses drop."""
    reasoning = reply.get("reasoning_content")
    return {**echo, "reasoning_content": reasoning} if reasoning and not echo.get("reasoning_content") else echo


def end_of_reply(text: str, begin: int, echo: Message, stops: Sequence[str]) -> tuple[int, str]:
    """Where the reply that begins there ends, and with which stop text: with none when there is none, or when the reply
    quotes one, which leaves doubt."""
    quoted = text_of(echo.get("content")) + str(echo.get("tool_calls", "")) + str(echo.get("reasoning_content", ""))
    found = [(at, stop) for stop in stops if (at := text.find(stop, begin)) >= 0]
    return (begin, "") if not found or any(stop in quoted for stop in stops) else min(found)


def _changed(template: Writes, before: str, recorded: str, text: str) -> Obstacle:
    """Why a text does not begin as the one recorded. `before` is what the template would write for that one today."""
    if mark(before, template.opening) != recorded:
        return "history_changed"
    return "reasoning_not_kept" if before.count(THINK_CLOSE) > text.count(THINK_CLOSE) else "template_rewrites"


def _difference(template: Writes, sampled: str, written: str, body: list[int]) -> Difference:
    if sampled != written:
        return "text"
    return "" if template.encode(written) == template.encode(template.opening) + body else "tokens"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()
