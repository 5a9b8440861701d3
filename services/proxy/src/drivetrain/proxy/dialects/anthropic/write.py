"""A reply as Anthropic Messages has it: one document, or the events that build it block by block."""

from collections.abc import Sequence
from typing import Any

import msgspec

from drivetrain.proxy.dialects.anthropic.errors import error as error_of
from drivetrain.proxy.dialects.base import Head, Part, Whole
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.replies.parts import Finished, Tokens
from drivetrain.proxy.replies.reader import Call, Piece

_BLOCKS = {
    "content": ({"type": "text", "text": ""}, "text_delta", "text"),
    "reasoning": ({"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking"),
}
"""Of each channel: the block as it opens, the type of its deltas, and their field."""


def writer(head: Head) -> "Writer":
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    return Writer(head)


class Writer:
    """Writes the events of one answer; see `drivetrain.proxy.dialects.base.Writes`."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._index = -1
        self._channel: str | None = None

    def opened(self) -> bytes:
        prompt = len(self._head.opened[0].prompt_ids)
        message = {**_identity(self._head), "content": [], "stop_reason": None, "stop_sequence": None}
        message["usage"] = _usage(prompt, 0, 0)
        return _event("message_start", message=message) + _event("ping")

    def part(self, index: int, part: Part) -> bytes:
        if isinstance(part, Piece):
            return self._piece(part)
        if isinstance(part, Call):
            return self._call(part)
        return b"" if isinstance(part, Tokens) else self._end(part)

    def broken(self, error: Refused) -> bytes:
        return b"event: error\ndata: " + msgspec.json.encode(error_of(error)) + b"\n\n"

    def _piece(self, piece: Piece) -> bytes:
        block, delta, field = _BLOCKS[piece.channel]
        before = b""
        if self._channel != piece.channel:
            before = self._close() + self._open(block)
            self._channel = piece.channel
        return before + self._delta({"type": delta, field: piece.text})

    def _call(self, call: Call) -> bytes:
        opening = self._close() + self._open({"type": "tool_use", "id": call.id, "name": call.name, "input": {}})
        delta = self._delta({"type": "input_json_delta", "partial_json": call.arguments})
        return opening + delta + _event("content_block_stop", index=self._index)

    def _end(self, finished: Finished) -> bytes:
        reason, sequence = _stop(finished)
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        ending = _event("message_delta", delta=delta, usage=_usage_of(finished)) + _event("message_stop")
        return self._close() + ending

    def _open(self, block: dict[str, Any]) -> bytes:
        self._index += 1
        return _event("content_block_start", index=self._index, content_block=block)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", index=self._index, delta=delta)

    def _close(self) -> bytes:
        """End the block of text or reasoning that is open, if one is."""
        channel, self._channel = self._channel, None
        if channel is None:
            return b""
        signature = {"type": "signature_delta", "signature": _signature(self._head)}
        signed = self._delta(signature) if channel == "reasoning" else b""
        return signed + _event("content_block_stop", index=self._index)


def document(head: Head, replies: Sequence[Whole]) -> dict[str, Any]:
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    (reply,) = replies
    reason, sequence = _stop(reply.finished)
    blocks: list[dict[str, Any]] = []
    if reply.reasoning:
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": _signature(head)})
    if reply.content:
        blocks.append({"type": "text", "text": reply.content})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments)} for call in reply.calls
    ]
    ending = {"stop_reason": reason, "stop_sequence": sequence, "usage": _usage_of(reply.finished)}
    return {**_identity(head), "content": blocks, **ending}


def _identity(head: Head) -> dict[str, Any]:
    return {"id": f"msg_{head.opened[0].turn}", "type": "message", "role": "assistant", "model": head.ask.model}


def _signature(head: Head) -> str:
    """What clients send back with reasoning, unchanged: the turn that it belongs to."""
    return head.opened[0].turn


def _stop(finished: Finished) -> tuple[str, str | None]:
    """The reason, and the stop sequence if that was it."""
    if finished.finish == "tool_calls":
        return "tool_use", None
    if finished.stopped_by is not None:
        return "stop_sequence", finished.stopped_by
    return "max_tokens" if finished.finish == "length" else "end_turn", None


def _usage_of(finished: Finished) -> dict[str, int]:
    return _usage(finished.prompt_tokens, finished.cached or 0, finished.completion_tokens)


def _usage(prompt: int, cached: int, output: int) -> dict[str, int]:
    """True counts: the prompt is what was read from the cache and what was not."""
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": output,
    }


def _input(arguments: str) -> Any:
    """A call's arguments as data. A model may have written something that is not an object; it stays visible."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return {"arguments": arguments}
    return value if isinstance(value, dict) else {"arguments": value}


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + msgspec.json.encode({"type": kind, **data}) + b"\n\n"
