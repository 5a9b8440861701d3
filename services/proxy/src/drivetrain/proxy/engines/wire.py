"""The words of vLLM's `/inference/v1/generate`: a request's body, and the events of its stream, read with types."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from drivetrain.proxy.engines.base import Candidate, EngineBroke, LabelSpan, Sampled

_TOO_LONG = (
    re.compile(r"maximum context length is (?P<limit>\d+) tokens.*?(?P<tokens>\d+) input tokens", re.DOTALL),
    re.compile(r"\(length (?P<tokens>\d+)\).*?maximum model length of (?P<limit>\d+)", re.DOTALL),
)
_NO_LOGPROB = -9999.0
"""What vLLM writes where it has no logprob."""


class _Logprob(msgspec.Struct, gc=False):
    token_id: int
    logprob: float
    top_logprobs: list[Candidate] = []


class _Logprobs(msgspec.Struct, gc=False):
    content: list[_Logprob] | None = None


class _Choice(msgspec.Struct, gc=False):
    token_ids: list[Annotated[int, msgspec.Meta(ge=0, lt=2**31)]] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: Literal["stop", "length", "abort", "error"] | None = None
    weight_versions: list[LabelSpan] | None = None


class _Cached(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens_details: _Cached | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    prompt_token_ids: list[int] | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


def request_body(turn: str, prompt: Sequence[int], parameters: dict[str, Any], images: Sequence[str] = ()) -> bytes:
    """A request for a streamed reply; vLLM calls it by the turn's id, and puts images where the prompt has marks."""
    body: dict[str, Any] = {
        "request_id": turn,
        "token_ids": prompt,
        "sampling_params": parameters,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if images:
        body["content_parts"] = [{"type": "image_url", "url": url} for url in images]
        body["return_token_ids"] = True
    return msgspec.json.encode(body)


def read_chunk(data: bytes) -> Sampled:
    """One event of the generate stream.

    Raises:
        EngineBroke: it is an error of the engine, or not of the known form.
    """
    try:
        chunk = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EngineBroke(f"the engine sent what cannot be read: {words(data)}") from error
    if not chunk.choices:
        if chunk.choices is None:
            raise EngineBroke(f"the engine reports: {words(data)}")
        cached = chunk.usage.prompt_tokens_details if chunk.usage else None
        return Sampled([], [], cached=cached.cached_tokens if cached else None)
    choice = chunk.choices[0]
    finish = choice.finish_reason
    if finish == "abort" or finish == "error":
        raise EngineBroke(f"the engine ended the reply with {finish!r}")
    ids = choice.token_ids or []
    return Sampled(
        ids,
        _logprobs(ids, choice.logprobs),
        finish,
        choice.weight_versions,
        tops=_tops(choice.logprobs),
        prompt_ids=chunk.prompt_token_ids,
    )


def words(data: bytes) -> str:
    """The message in an error of the engine, or the beginning of what it sent."""
    try:
        error = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data[:200].decode(errors="replace")
    inner = error.get("error", error) if isinstance(error, dict) else error
    return str(inner.get("message", inner) if isinstance(inner, dict) else inner)[:500]


def too_long(said: str) -> tuple[int, int] | None:
    """The prompt's tokens and the context's, if that is what the engine refuses the request for."""
    found = next(filter(None, (pattern.search(said) for pattern in _TOO_LONG)), None)
    return (int(found["tokens"]), int(found["limit"])) if found else None


def _logprobs(ids: list[int], logprobs: _Logprobs | None) -> list[float | None]:
    entries = (logprobs.content if logprobs else None) or []
    if [entry.token_id for entry in entries] != ids:
        return [None] * len(ids)
    return [entry.logprob if entry.logprob > _NO_LOGPROB else None for entry in entries]


def _tops(logprobs: _Logprobs | None) -> list[list[Candidate]] | None:
    """The candidates at each place. One alone is the sampled token, which vLLM always names."""
    entries = (logprobs.content if logprobs else None) or []
    return [entry.top_logprobs for entry in entries] if entries and len(entries[0].top_logprobs) > 1 else None
