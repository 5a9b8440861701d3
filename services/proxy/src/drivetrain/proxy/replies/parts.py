"""What a reply consists of, in the order in which the gateway gives it and dialects write it."""

from collections.abc import AsyncGenerator

import msgspec

from drivetrain.proxy.replies.reader import Call, Piece
from drivetrain.proxy.turns import Finish


class Opened(msgspec.Struct, frozen=True):
    """The engine's first tokens are there; the turn has an id."""

    turn: str
    session: str
    prompt_ids: list[int]


class Tokens(msgspec.Struct, frozen=True):
    """Sampled tokens with their logprobs and texts, before the pieces that they complete; only if asked for."""

    ids: list[int]
    logprobs: list[float | None]
    texts: list[str]


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The reply is whole and recorded. Counts are of tokens; `cached` as far as the engine says."""

    finish: Finish
    prompt_tokens: int
    completion_tokens: int
    cached: int | None
    stopped_by: str | None


Reply = AsyncGenerator[Opened | Tokens | Piece | Call | Finished, None]
