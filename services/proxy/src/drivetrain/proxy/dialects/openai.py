"""What OpenAI's APIs have in common: sampling fields, usage, logprobs, errors, and the form of their streams."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from drivetrain.common.events import Sampling
from drivetrain.proxy.dialects.base import Head
from drivetrain.proxy.dialects.reading import HINT_NOTES, Hints
from drivetrain.proxy.engines.sampling import MOST_TOPS, NEUTRAL
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.replies.parts import Finished, Tokens

NO_LOGPROB = -9999.0
"""What OpenAI's clients expect where there is no logprob."""

DONE = b"data: [DONE]\n\n"
NOTES = HINT_NOTES | {
    "n": "1 to 16; each reply is a turn of its own, with the seed plus its index",
    "logit_bias": "keys are token ids",
    "return_token_ids": "as vLLM does: `prompt_token_ids`, and `token_ids` of each choice",
}
HARMLESS = {
    "metadata": "",
    "prompt_cache_retention": "",
    "safety_identifier": "",
    "service_tier": "",
    "store": "replies are kept as consent says",
    "user": "",
}

Top = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOPS)]
"""How many of the likeliest tokens are told at each place."""

Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]


class StreamOptions(msgspec.Struct):
    """Options of a stream."""

    include_usage: bool | None = None


class Fields(Hints, kw_only=True):
    """The fields that chat and completions share."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=16)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)] | None = None
    min_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    repetition_penalty: Annotated[float, msgspec.Meta(gt=0, le=2)] | None = None
    logit_bias: dict[str, Annotated[float, msgspec.Meta(ge=-100, le=100)]] | None = None
    seed: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: str | list[str] | None = None
    return_token_ids: bool | None = None

    @property
    def stops(self) -> list[str]:
        """The stop strings."""
        return [text for text in ([self.stop] if isinstance(self.stop, str) else self.stop or []) if text]


def sampling_of(body: Fields, max_tokens: int | None, form: dict[str, Any] | None = None) -> Sampling:
    """Sampling parameters; `form` holds the reply to a grammar.

    Raises:
        Refused: a bias for something that is no token id.
    """
    other: dict[str, Any] = {name: getattr(body, name) for name in NEUTRAL if getattr(body, name) is not None}
    if body.logit_bias:
        if not all(key.isascii() and key.isdecimal() and len(key) < 10 for key in body.logit_bias):
            raise Refused(400, "logit_bias: keys are token ids", param="logit_bias")
        other["logit_bias"] = {int(key): bias for key, bias in body.logit_bias.items()}
    return Sampling(
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        top_k=max(body.top_k or 0, 0),
        max_tokens=max_tokens,
        seed=body.seed,
        other=other | (form or {}),
    )


def error(error: Refused) -> dict[str, Any]:
    """A refusal in OpenAI's shape."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}


def usage(finished: Sequence[Finished]) -> dict[str, Any]:
    """True counts of tokens; the prompt of siblings counts once."""
    prompt, completion = finished[0].prompt_tokens, sum(each.completion_tokens for each in finished)
    counts: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if finished[0].cached is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": finished[0].cached}
    return counts


def identity(head: Head, prefix: str, kind: str) -> dict[str, Any]:
    """What every document and chunk of an answer begins with."""
    turn = head.opened[0].turn
    return {"id": f"{prefix}-{turn}", "object": kind, "created": head.created, "model": head.ask.model}


def logprobs_of(tokens: Tokens) -> list[float]:
    """Logprobs as numbers."""
    return [NO_LOGPROB if logprob is None else logprob for logprob in tokens.logprobs]


def event(data: dict[str, Any]) -> bytes:
    """One event of a stream."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"
