"""The words of vLLM's `/inference/v1/generate`: a request's body, and the events of its stream, read with types."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from drivetrain.proxy.engines import grammar
from drivetrain.proxy.engines.base import Candidate, EngineBroke, EngineRefused, LabelSpan, Sampled

REFUSALS = frozenset({400, 404, 413, 422})
"""The codes with which vLLM refuses a request itself."""


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


def request_body(
    turn: str,
    prompt: Sequence[int],
    parameters: dict[str, Any],
    images: Sequence[str] = (),
    adapter: str | None = None,
) -> bytes:
    """A request for a streamed reply; vLLM calls it by the turn's id, and puts images where the prompt has marks."""
    body: dict[str, Any] = {
        "request_id": turn,
        "token_ids": prompt,
        "sampling_params": parameters,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if grammar.PARAMETER in parameters:
        body["reasoning_ended"] = True  # the form says itself where it begins, whatever the server knows of reasoning
    if adapter is not None:
        body["model"] = adapter
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


def read_first(data: bytes) -> Sampled:
    """The first event of a stream: what vLLM finds wrong with a request late, it says there, after a status of 200.

    Raises:
        EngineRefused: the request itself is refused.
        EngineBroke: as `read_chunk` does.
    """
    try:
        return read_chunk(data)
    except EngineBroke as error:
        said = _error(data)
        if isinstance(said, dict) and said.get("code") in REFUSALS:
            raise EngineRefused(f"the engine refuses the request: {words(data)}") from error
        raise


def words(data: bytes) -> str:
    """The message in an error of the engine, or the beginning of what it sent."""
    error = _error(data)
    if error is None:
        return data[:200].decode(errors="replace")
    return str(error.get("message", error) if isinstance(error, dict) else error)[:500]


def _error(data: bytes) -> Any:
    """What JSON says of an error; None for what is no JSON."""
    try:
        said = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return said.get("error", said) if isinstance(said, dict) else said


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
