"""OpenAI Completions: a text, or token ids, that the model continues as they are."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from drivetrain.proxy.dialects import openai
from drivetrain.proxy.dialects.answers import joined
from drivetrain.proxy.dialects.base import Head, Part, Support, Whole
from drivetrain.proxy.dialects.openai import error
from drivetrain.proxy.dialects.reading import hints_of, parse, typed
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.replies.parts import Finished, Tokens
from drivetrain.proxy.replies.reader import Piece
from drivetrain.proxy.turns import Ask

NAME = "OpenAI Completions"
PATH = "/v1/completions"
__all__ = ["NAME", "PATH", "SUPPORT", "document", "error", "read", "writer"]

_TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_MAX_TOKENS = 16
"""The API's own default."""


class Body(openai.Fields, kw_only=True):
    """The supported fields; a value outside its type here is one that cannot be honoured."""

    prompt: str | list[_TokenId]
    best_of: Literal[1] | None = None
    echo: Literal[False] | None = None
    logprobs: openai.Top | None = None


SUPPORT = Support(
    body=Body,
    notes=openai.NOTES
    | {
        "best_of": "1",
        "echo": "false",
        "logprobs": "0 to 20: of the sampled tokens, and of so many of the likeliest ones",
        "max_tokens": f"{_MAX_TOKENS} if it is missing",
        "prompt": "one text, or the token ids of one prompt",
    },
    harmless=openai.HARMLESS,
    refused={
        "best_of": "every reply is returned: use n",
        "echo": "the prompt is not repeated: put it before the reply yourself",
        "prompt": "one prompt a request: a text or a list of token ids",
        "suffix": "nothing is inserted: leave it out",
    },
)
"""What is made of each field."""


def read(data: bytes) -> Ask:
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    body = typed(parse(data), SUPPORT, Body)
    if not body.prompt:
        raise Refused(400, "the prompt is empty", param="prompt")
    return Ask(
        model=body.model,
        messages=[{"role": "user", "content": body.prompt}] if isinstance(body.prompt, str) else [],
        prompt=body.prompt,
        sampling=openai.sampling_of(body, body.max_tokens or _MAX_TOKENS),
        stop=body.stops,
        stream=bool(body.stream),
        usage_chunk=bool(body.stream_options and body.stream_options.include_usage),
        logprobs=body.logprobs is not None,
        top_logprobs=body.logprobs or 0,
        token_ids=bool(body.return_token_ids),
        replies=body.n or 1,
        hints=hints_of(body),
    )


def writer(head: Head) -> "Writer":
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    return Writer(head)


class Writer:
    """Writes the chunks of one answer; see `drivetrain.proxy.dialects.base.Writes`."""

    def __init__(self, head: Head) -> None:
        self._head, self._identity = head, openai.identity(head, "cmpl", "text_completion")
        self._waiting: list[Tokens | None] = [None] * len(head.opened)
        self._offsets = [0] * len(head.opened)
        self._finished: list[Finished] = []

    def opened(self) -> bytes:
        if not self._head.ask.token_ids:
            return b""
        return b"".join(self._chunk(index, "", None, _prompt(self._head)) for index in range(len(self._head.opened)))

    def part(self, index: int, part: Part) -> bytes:
        if isinstance(part, Piece):
            return self._chunk(index, part.text, None, {})
        if isinstance(part, Tokens):
            waiting = self._waiting[index]
            self._waiting[index] = joined(waiting, part) if waiting else part
        if not isinstance(part, Finished):
            return b""
        self._finished.append(part)
        last = self._chunk(index, "", part.finish, {})
        return last if len(self._finished) < len(self._head.opened) else last + self._end()

    def broken(self, error: Refused) -> bytes:
        return openai.event(openai.error(error))

    def _end(self) -> bytes:
        if not self._head.ask.usage_chunk:
            return openai.DONE
        return openai.event({**self._identity, "choices": [], "usage": openai.usage(self._finished)}) + openai.DONE

    def _chunk(self, index: int, text: str, finish: str | None, more: dict[str, Any]) -> bytes:
        choice = {"index": index, "text": text, "logprobs": None, "finish_reason": finish, **more}
        if tokens := self._waiting[index]:
            self._waiting[index] = None
            choice |= _tokens(self._head.ask, tokens, self._offsets[index])
            self._offsets[index] += sum(map(len, tokens.texts))
        return openai.event({**self._identity, "choices": [choice]})


def document(head: Head, replies: Sequence[Whole]) -> dict[str, Any]:
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    choices = [
        {
            "index": index,
            "text": reply.content,
            "finish_reason": reply.finished.finish,
            "logprobs": None,
            **_tokens(head.ask, reply.tokens, 0),
            **(_prompt(head) if head.ask.token_ids else {}),
        }
        for index, reply in enumerate(replies)
    ]
    usage = openai.usage([reply.finished for reply in replies])
    return {**openai.identity(head, "cmpl", "text_completion"), "choices": choices, "usage": usage}


def _prompt(head: Head) -> dict[str, Any]:
    return {"prompt_token_ids": head.opened[0].prompt_ids}


def _tokens(ask: Ask, tokens: Tokens, offset: int) -> dict[str, Any]:
    """Logprobs and token ids of a choice, as far as they were asked for; `offset` is where its text goes on."""
    fields: dict[str, Any] = {}
    if ask.logprobs:
        logprobs = openai.logprobs_of(tokens)
        rows = zip(tokens.texts, logprobs, tokens.tops, strict=False)
        offsets = [offset + sum(map(len, tokens.texts[:i])) for i in range(len(tokens.texts))]
        fields["logprobs"] = {
            "tokens": tokens.texts,
            "token_logprobs": logprobs,
            "top_logprobs": [{**dict(tops), text: logprob} for text, logprob, tops in rows] or None,
            "text_offset": offsets,
        }
    if ask.token_ids:
        fields["token_ids"] = tokens.ids
    return fields
