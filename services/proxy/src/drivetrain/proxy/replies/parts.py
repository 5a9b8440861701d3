"""What a reply consists of, in the order in which the gateway gives it and dialects write it."""

from collections.abc import AsyncGenerator, Callable

import msgspec

from drivetrain.proxy.engines.base import Sampled
from drivetrain.proxy.replies.reader import Call, Piece
from drivetrain.proxy.turns import Finish


class Opened(msgspec.Struct, frozen=True):
    """The engine's first tokens are there; the turn has an id."""

    turn: str
    session: str
    prompt_ids: list[int]


class Tokens(msgspec.Struct, frozen=True):
    """Sampled tokens with their logprobs and texts, before the pieces that they complete; only if asked for. `tops` has
    the likeliest tokens at each place, with their logprobs, and is empty where these were not asked for."""

    ids: list[int]
    logprobs: list[float | None]
    texts: list[str]
    tops: list[list[tuple[str, float]]]

    @classmethod
    def of(cls, sampled: Sampled, top: int, text: Callable[[int], str]) -> "Tokens":
        """What the engine sampled, with the `top` likeliest candidates at each place."""
        likeliest = (sampled.tops or [[]] * len(sampled.ids)) if top else []
        ranked = [sorted(each, key=lambda one: -one.logprob)[:top] for each in likeliest]
        tops = [[(text(one.token_id), one.logprob) for one in each] for each in ranked]
        return cls(list(sampled.ids), list(sampled.logprobs), [text(token) for token in sampled.ids], tops)


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The reply is whole and recorded. Counts are of tokens; `cached` as far as the engine says."""

    finish: Finish
    prompt_tokens: int
    completion_tokens: int
    cached: int | None
    stopped_by: str | None


Reply = AsyncGenerator[Opened | Tokens | Piece | Call | Finished, None]
