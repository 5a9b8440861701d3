"""A reply as Gemini has it: one document, or a stream of documents that each hold what is new.

Reasoning goes out as thoughts, and once more in the signature of the part after it: clients keep signatures in their
history, thoughts not all.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import msgspec

from drivetrain.proxy.dialects.answers import joined
from drivetrain.proxy.dialects.base import Head, Part, Whole
from drivetrain.proxy.dialects.gemini.errors import error as error_of
from drivetrain.proxy.dialects.sealing import seal
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.replies.parts import Finished, Tokens
from drivetrain.proxy.replies.reader import Call, Piece

_FINISH = {"length": "MAX_TOKENS"}
_END: dict[str, Any] = {"text": ""}
"""The part of a stream's last document, which is there because clients drop the whole reply for one without parts."""


def writer(head: Head) -> "Writer":
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    return Writer(head)


class Writer:
    """Writes the events of one answer; see `drivetrain.proxy.dialects.base.Writes`."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._waiting: list[Tokens | None] = [None] * len(head.opened)
        self._thoughts: list[list[str]] = [[] for _ in head.opened]
        self._finished: list[Finished] = []

    def opened(self) -> bytes:
        return b""

    def part(self, index: int, part: Part) -> bytes:
        if isinstance(part, Tokens):
            waiting = self._waiting[index]
            self._waiting[index] = joined(waiting, part) if waiting else part
            return b""
        if isinstance(part, Finished):
            self._finished.append(part)
            return self._event(index, self._signed(index, _END), part)
        if isinstance(part, Call):
            return self._event(index, self._signed(index, _call(part)), None)
        if part.channel == "reasoning":
            self._thoughts[index].append(part.text)
        return self._event(index, _text(part), None)

    def broken(self, error: Refused) -> bytes:
        return b"data: " + msgspec.json.encode(error_of(error)) + b"\n\n"

    def _signed(self, index: int, part: dict[str, Any]) -> dict[str, Any]:
        """A part with what was thought before it, unless an earlier one has it."""
        thought, self._thoughts[index] = self._thoughts[index], []
        return _signed(part, "".join(thought))

    def _event(self, index: int, part: dict[str, Any], finished: Finished | None) -> bytes:
        candidate = _candidate(index, [part], finished)
        if tokens := self._waiting[index]:
            self._waiting[index] = None
            candidate |= _logprobs(tokens)
        document = {**_identity(self._head), "candidates": [candidate]}
        if len(self._finished) == len(self._head.opened):
            document["usageMetadata"] = _usage(self._finished)
        return b"data: " + msgspec.json.encode(document) + b"\n\n"


def document(head: Head, replies: Sequence[Whole]) -> dict[str, Any]:
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    candidates = [_whole(index, reply, told=head.ask.logprobs) for index, reply in enumerate(replies)]
    usage = _usage([reply.finished for reply in replies])
    return {**_identity(head), "candidates": candidates, "usageMetadata": usage}


def _whole(index: int, reply: Whole, *, told: bool) -> dict[str, Any]:
    texts = [_text(Piece("reasoning", reply.reasoning)), _text(Piece("content", reply.content))]
    parts = [part for part in texts if part["text"]] + [_call(call) for call in reply.calls] or [_END]
    signs = len(parts) - max(len(reply.calls), 1)
    parts[signs] = _signed(parts[signs], reply.reasoning)
    return _candidate(index, parts, reply.finished) | (_logprobs(reply.tokens) if told else {})


def _identity(head: Head) -> dict[str, Any]:
    return {"responseId": head.opened[0].turn, "modelVersion": head.ask.model}


def _candidate(index: int, parts: list[dict[str, Any]], finished: Finished | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": index, "content": {"role": "model", "parts": parts}}
    if finished:
        candidate["finishReason"] = _FINISH.get(finished.finish, "STOP")
    return candidate


def _text(piece: Piece) -> dict[str, Any]:
    return {"text": piece.text, "thought": True} if piece.channel == "reasoning" else {"text": piece.text}


def _signed(part: dict[str, Any], thought: str) -> dict[str, Any]:
    return {**part, "thoughtSignature": seal(thought)} if thought else part


def _call(call: Call) -> dict[str, Any]:
    return {"functionCall": {"id": call.id, "name": call.name, "args": _arguments(call.arguments)}}


def _arguments(text: str) -> dict[str, Any]:
    """A call's arguments as data. A model may have written something that is not an object; it stays visible."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {"arguments": text}
    return value if isinstance(value, dict) else {"arguments": value}


def _usage(finished: Sequence[Finished]) -> dict[str, int]:
    """True counts of tokens; the prompt of siblings counts once."""
    prompt, reply = finished[0].prompt_tokens, sum(each.completion_tokens for each in finished)
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": reply, "totalTokenCount": prompt + reply}
    return counts | ({"cachedContentTokenCount": finished[0].cached} if finished[0].cached else {})


def _logprobs(tokens: Tokens) -> dict[str, Any]:
    """The sampled tokens and, as far as they were asked for, the likeliest ones at each place."""
    rows = list(zip(tokens.ids, tokens.texts, tokens.logprobs, strict=True))
    chosen = [{"token": text, "tokenId": token, "logProbability": value} for token, text, value in rows]
    likeliest = [
        {"candidates": [{"token": text, "logProbability": value} for text, value in tops]}
        for _, tops in zip(rows, tokens.tops or repeat([]), strict=False)
    ]
    return {"logprobsResult": {"chosenCandidates": chosen, "topCandidates": likeliest if tokens.tops else []}}
