"""A reply as OpenAI Chat Completions has it: one document, or chunks."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import msgspec

from drivetrain.common.events import Message
from drivetrain.proxy.dialects import openai
from drivetrain.proxy.dialects.answers import joined
from drivetrain.proxy.dialects.base import Head, Part, Whole
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.replies.parts import Finished, Tokens
from drivetrain.proxy.replies.reader import Call, Piece
from drivetrain.proxy.turns import Ask

_CHANNELS = {"content": "content", "reasoning": "reasoning_content"}


def writer(head: Head) -> "Writer":
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    return Writer(head)


class Writer:
    """Writes the chunks of one answer; see `drivetrain.proxy.dialects.base.Writes`."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._identity = openai.identity(head, "chatcmpl", "chat.completion.chunk")
        self._opening = b"data: " + msgspec.json.encode(self._identity)[:-1] + b',"choices":['
        self._calls = [0] * len(head.opened)
        self._waiting: list[Tokens | None] = [None] * len(head.opened)
        self._finished: list[Finished] = []

    def opened(self) -> bytes:
        role = {"role": "assistant", "content": ""}
        chunks = b"".join(self._chunk(index, role) for index in range(len(self._head.opened)))
        if not self._head.ask.token_ids:
            return chunks
        return openai.event({**self._identity, "choices": [], **_prompt(self._head)}) + chunks

    def part(self, index: int, part: Part) -> bytes:
        if isinstance(part, Piece):
            return self._chunk(index, {_CHANNELS[part.channel]: part.text})
        if isinstance(part, Tokens):
            waiting = self._waiting[index]
            self._waiting[index] = joined(waiting, part) if waiting else part
            return b""
        if isinstance(part, Call):
            return self._call(index, part)
        self._finished.append(part)
        return self._chunk(index, {}, part.finish) + self._end()

    def broken(self, error: Refused) -> bytes:
        return openai.event(openai.error(error))

    def _end(self) -> bytes:
        if len(self._finished) < len(self._head.opened):
            return b""
        if not self._head.ask.usage_chunk:
            return openai.DONE
        return openai.event({**self._identity, "choices": [], "usage": openai.usage(self._finished)}) + openai.DONE

    def _call(self, index: int, call: Call) -> bytes:
        number = self._calls[index]
        self._calls[index] += 1
        function = {"name": call.name, "arguments": ""}
        opening = {"index": number, "id": call.id, "type": "function", "function": function}
        arguments = {"index": number, "function": {"arguments": call.arguments}}
        return self._chunk(index, {"tool_calls": [opening]}) + self._chunk(index, {"tool_calls": [arguments]})

    def _chunk(self, index: int, delta: dict[str, Any], finish: str | None = None) -> bytes:
        """One chunk, with the tokens that were sampled since the last one."""
        choice: dict[str, Any] = {"index": index, "delta": delta, "finish_reason": finish}
        if tokens := self._waiting[index]:
            self._waiting[index] = None
            choice |= _tokens(self._head.ask, tokens)
        return self._opening + msgspec.json.encode(choice) + b"]}\n\n"


def document(head: Head, replies: Sequence[Whole]) -> dict[str, Any]:
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    choices = [
        {
            "index": index,
            "message": _message(reply),
            "finish_reason": reply.finished.finish,
            "logprobs": None,
            **_tokens(head.ask, reply.tokens),
        }
        for index, reply in enumerate(replies)
    ]
    return {
        **openai.identity(head, "chatcmpl", "chat.completion"),
        "choices": choices,
        "usage": openai.usage([reply.finished for reply in replies]),
        **(_prompt(head) if head.ask.token_ids else {}),
    }


def _message(reply: Whole) -> Message:
    content = reply.content if reply.content or not reply.calls else None
    message: Message = {"role": "assistant", "content": content}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.calls
        ]
    return message


def _prompt(head: Head) -> dict[str, Any]:
    return {"prompt_token_ids": head.opened[0].prompt_ids}


def _tokens(ask: Ask, tokens: Tokens) -> dict[str, Any]:
    """Logprobs and token ids of a choice, as far as they were asked for."""
    fields: dict[str, Any] = {}
    if ask.logprobs:
        rows = zip(tokens.texts, openai.logprobs_of(tokens), tokens.tops or repeat(()), strict=False)
        content = [
            {**_logprob(text, logprob), "top_logprobs": [_logprob(*top) for top in tops]}
            for text, logprob, tops in rows
        ]
        fields["logprobs"] = {"content": content, "refusal": None}
    if ask.token_ids:
        fields["token_ids"] = tokens.ids
    return fields


def _logprob(text: str, logprob: float) -> dict[str, Any]:
    """A token's logprob. A part of a character has no text of its own, so its bytes are not told."""
    data = None if "\ufffd" in text else list(text.encode())
    return {"token": text, "logprob": logprob, "bytes": data}
