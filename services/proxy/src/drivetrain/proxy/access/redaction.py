"""Secrets are masked in all that is recorded: in messages and replies as text, in token ids by a stand-in.

This happens where events leave for the local log, and nowhere else: the session index, which is memory, keeps the true
tokens, so that a conversation goes on exactly. A turn that holds a masked token, and every later turn of its chain, is
recorded to be read and not to be trained. It has no place in the index that a loss of Redis rebuilds: its record could
not continue it.
"""

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

import msgspec
import regex
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from drivetrain.common.events import Event, Signal, TurnFollowed, TurnRecorded
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.tokens import pack_ids, pack_logprobs, unpack_ids, unpack_logprobs
from drivetrain.proxy.access.mask import TIMEOUT_S, Mask, Span

MASKED_ID = -1
"""In place of a token that carries a part of a secret: no tokenizer has such a token. Its logprob is NaN."""

_THREADS = 2
_log = get_logger("access")
E = TypeVar("E", bound=Event)


class Reader:
    """Token ids as text, by a model's tokenizer."""

    def __init__(self, backend: Tokenizer) -> None:
        self._backend = backend

    def text(self, ids: Sequence[int]) -> str:
        """All of it at once, which takes a tenth of the time."""
        return self._backend.decode(list(ids), skip_special_tokens=False)

    def pieces(self, ids: Sequence[int]) -> list[str] | None:
        """What each token adds; the last one of a character carries all of it. None where the tokenizer gives up."""
        stream = DecodeStream(skip_special_tokens=False)
        try:
            return [stream.step(self._backend, token) or "" for token in ids]
        except Exception as error:  # noqa: BLE001  its own type cannot be imported
            _log.warning("tokens cannot be read one by one: all of a turn's are masked", reason=type(error).__name__)
            return None


class Redaction:
    """Masks what the patterns match. `readers` are by policy; without patterns everything stays as it is."""

    def __init__(
        self, patterns: Mapping[str, str], readers: Mapping[str, Reader], timeout_s: float = TIMEOUT_S
    ) -> None:
        self._patterns = {name: regex.compile(pattern) for name, pattern in patterns.items()}
        self._readers, self._timeout_s = readers, timeout_s
        self._threads = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="redact")

    async def beside(self, event: E) -> E:
        """The same as a call, in a thread: other threads run while a pattern looks at a text."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self, event)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=True)

    def __call__(self, event: E) -> E:
        """The event as it may be written down."""
        masked: Event = event
        if self._patterns and isinstance(event, TurnRecorded):
            masked = self._turn(event)
        elif self._patterns and isinstance(event, TurnFollowed):
            mask = Mask(self._patterns, self._timeout_s)
            messages, before = mask.messages(event.messages), mask.messages(event.before)
            reply = mask.value(event.reply)
            masked = msgspec.structs.replace(event, messages=messages, before=before, reply=reply)
        elif self._patterns and isinstance(event, Signal):
            masked = msgspec.structs.replace(event, text=Mask(self._patterns, self._timeout_s).text(event.text))
        return cast(E, masked)

    def _turn(self, event: TurnRecorded) -> TurnRecorded:
        mask = Mask(self._patterns, self._timeout_s)
        messages, reply = mask.messages(event.messages), mask.value(event.reply)
        tools, stop, other = (mask.value(each) for each in (event.tools, event.sampling.stop, event.sampling.other))
        prompt, response = unpack_ids(event.prompt_ids), unpack_ids(event.response_ids)
        hidden = self._hidden(event.policy, prompt + response, mask)
        names = sorted(mask.found | set(filter(None, event.masked.split(","))))
        if not names:
            return event
        logprobs = unpack_logprobs(event.logprobs)
        reasons = filter(None, (event.inexact_reason, f"masked: {', '.join(names)}"))
        return msgspec.structs.replace(
            event,
            messages=messages,
            reply=reply,
            tools=tools,
            sampling=msgspec.structs.replace(event.sampling, stop=stop, other=other),
            prompt_ids=pack_ids([MASKED_ID if at in hidden else i for at, i in enumerate(prompt)]),
            response_ids=pack_ids([MASKED_ID if at in hidden else i for at, i in enumerate(response, len(prompt))]),
            logprobs=pack_logprobs([math.nan if at in hidden else p for at, p in enumerate(logprobs, len(prompt))]),
            masked=",".join(names),
            consent="record",
            exact=False,
            inexact_reason="; ".join(reasons),
            place=None,
        )

    def _hidden(self, policy: str, ids: list[int], mask: Mask) -> set[int]:
        """The positions of the tokens to hide. Where a secret of the messages cannot be found again in the tokens, or
        they cannot be read, all of them are."""
        reader = self._readers[policy]
        if not mask.spans(reader.text(ids)) and not mask.secrets:
            return set()
        if (pieces := reader.pieces(ids)) is None:
            return set(range(len(ids)))
        text = "".join(pieces)
        spans = mask.spans(text)
        for secret in mask.secrets:
            found = [span for form in _forms(secret) for span in _places(form, text)]
            if not found and not any(secret in text[start:end] for start, end in spans):
                return set(range(len(ids)))
            spans += found
        return set(_covered(pieces, spans))


def _forms(secret: str) -> set[str]:
    """How a template may write a text: as it is, trimmed, or inside JSON."""
    return {secret, secret.strip(), msgspec.json.encode(secret).decode()[1:-1]} - {""}


def _places(form: str, text: str) -> Iterator[Span]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + 1)


def _covered(pieces: Sequence[str], spans: Sequence[Span]) -> Iterator[int]:
    """The tokens of which a span covers a part. Those before the last one of a character go with it."""
    masked = bytearray(sum(map(len, pieces)))
    for start, end in spans:
        masked[start:end] = b"\x01" * (end - start)
    start, waiting = 0, []
    for at, piece in enumerate(pieces):
        waiting.append(at)
        if piece:
            if any(masked[start : start + len(piece)]):
                yield from waiting
            start, waiting = start + len(piece), []
    if waiting and spans:
        yield from waiting  # of an unfinished character nobody can say what it would be
