"""A reply as OpenAI Responses has it: one document, or the events that build it item by item."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from drivetrain.proxy.dialects import openai
from drivetrain.proxy.dialects.base import Head, Part, Whole
from drivetrain.proxy.dialects.openai_responses.events import Building, Events
from drivetrain.proxy.dialects.openai_responses.read import Own
from drivetrain.proxy.dialects.openai_responses.tools import Named, free_input
from drivetrain.proxy.dialects.sealing import seal
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.replies.parts import Finished, Tokens
from drivetrain.proxy.replies.reader import Call, Piece


def writer(head: Head) -> "Writer":
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    return Writer(head)


class Writer:
    """Writes the events of one answer; see `drivetrain.proxy.dialects.base.Writes`."""

    def __init__(self, head: Head) -> None:
        self._head, self._events = head, Events()
        self._building: Building | None = None
        self._output: list[dict[str, Any]] = []
        self._tokens: list[Tokens] = []

    def opened(self) -> bytes:
        begun = _response(self._head, "in_progress", [], None)
        return self._events.event("created", response=begun) + self._events.event("in_progress", response=begun)

    def part(self, index: int, part: Part) -> bytes:
        if isinstance(part, Tokens):
            self._tokens.append(part)
            return b""
        if isinstance(part, Piece):
            return self._piece(part)
        return self._call(part) if isinstance(part, Call) else self._end(part)

    def broken(self, error: Refused) -> bytes:
        failure = {"code": "server_error", "message": error.message}
        failed = _response(self._head, "failed", self._output, None) | {"error": failure}
        return self._events.event("failed", response=failed)

    def _piece(self, piece: Piece) -> bytes:
        before = b""
        if self._building is None or self._building.channel != piece.channel:
            before = self._close()
            identity = f"{_PREFIXES[piece.channel]}_{self._head.opened[0].turn}_{len(self._output)}"
            self._building = Building(self._events, piece.channel, identity, len(self._output))
            before += self._building.opened()
        return before + self._building.delta(piece.text, self._logprobs(piece))

    def _logprobs(self, piece: Piece) -> list[dict[str, Any]]:
        """Those of the tokens since the last piece; reasoning has none in this dialect."""
        tokens, self._tokens = self._tokens, []
        return [row for each in tokens for row in _logprobs(each)] if piece.channel == "content" else []

    def _call(self, call: Call) -> bytes:
        before = self._close()
        item = _call_item(self._head, call)
        self._output.append(item)
        return before + self._events.call(item, len(self._output) - 1)

    def _end(self, finished: Finished) -> bytes:
        before = self._close()
        status = _status(finished)
        whole = _response(self._head, status, self._output, finished)
        return before + self._events.event(status, response=whole)

    def _close(self) -> bytes:
        """End the item of text or reasoning that is open, if one is."""
        building, self._building = self._building, None
        if building is None:
            return b""
        sealed = seal(building.text) if _own(self._head).sealed else None
        self._output.append(building.item(sealed))
        return building.closed(self._output[-1])


_PREFIXES = {"content": "msg", "reasoning": "rs"}


def document(head: Head, replies: Sequence[Whole]) -> dict[str, Any]:
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    (reply,) = replies
    output: list[dict[str, Any]] = []
    for channel, text in (("reasoning", reply.reasoning), ("content", reply.content)):
        if text:
            identity = f"{_PREFIXES[channel]}_{head.opened[0].turn}_{len(output)}"
            building = Building(Events(), channel, identity, len(output))
            building.delta(text, _logprobs(reply.tokens) if channel == "content" and head.ask.logprobs else [])
            output.append(building.item(seal(text) if _own(head).sealed else None))
    output += [_call_item(head, call) for call in reply.calls]
    return _response(head, _status(reply.finished), output, reply.finished)


def _response(head: Head, status: str, output: Sequence[dict[str, Any]], finished: Finished | None) -> dict[str, Any]:
    ask = head.ask
    cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
    return {
        "id": f"resp_{head.opened[0].turn}",
        "object": "response",
        "created_at": head.created,
        "status": status,
        "error": None,
        "incomplete_details": cut,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": ask.model,
        "output": list(output),
        "parallel_tool_calls": not ask.one_call,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": ask.sampling.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": ask.sampling.top_p,
        "truncation": "disabled",
        "usage": _usage(finished) if finished else None,
        **_own(head).repeated,
    }


def _status(finished: Finished) -> str:
    return "incomplete" if finished.finish == "length" else "completed"


def _usage(finished: Finished) -> dict[str, Any]:
    """True counts of tokens; those of reasoning are not told apart."""
    return {
        "input_tokens": finished.prompt_tokens,
        "input_tokens_details": {"cached_tokens": finished.cached or 0},
        "output_tokens": finished.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": finished.prompt_tokens + finished.completion_tokens,
    }


def _call_item(head: Head, call: Call) -> dict[str, Any]:
    named = _own(head).names.get(call.name, Named(call.name))
    identity = call.id.removeprefix("call_")
    item: dict[str, Any] = {"call_id": call.id, "name": named.name, "status": "completed"}
    if named.namespace:
        item["namespace"] = named.namespace
    if named.free:
        return {"type": "custom_tool_call", "id": f"ctc_{identity}", **item, "input": free_input(call.arguments)}
    return {"type": "function_call", "id": f"fc_{identity}", **item, "arguments": call.arguments}


def _logprobs(tokens: Tokens) -> list[dict[str, Any]]:
    rows = zip(tokens.texts, openai.logprobs_of(tokens), tokens.tops or repeat(()), strict=False)
    return [
        {**_logprob(text, logprob), "top_logprobs": [_logprob(*top) for top in tops]} for text, logprob, tops in rows
    ]


def _logprob(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": [] if "\ufffd" in text else list(text.encode())}


def _own(head: Head) -> Own:
    own = head.ask.own
    assert isinstance(own, Own)
    return own
