"""The engine as the proxy sees it: token ids in, sampled tokens out as they come."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import msgspec


class EngineError(RuntimeError):
    """The engine did not give a whole reply."""


class EngineRefused(EngineError):
    """The engine refuses the request itself; another replica would too. The message carries its words."""


class EngineUnavailable(EngineError):
    """No replica gave a first token."""


class AdapterGone(EngineUnavailable):
    """The replica does not have the adapter that was asked for."""


class EngineBroke(EngineError):
    """The engine ended in mid-reply: it died, stalled or sent what cannot be read."""


class EngineBusy(EngineError):
    """No replica has room, or this request must wait for newer weights: worth a retry in `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants a reply. A session keeps its replica while it can; requests of one `lane` wait in line and lanes take
    turns; only rollouts are ever held back for newer weights."""

    session: str
    lane: str = ""
    rollout: bool = False


class LabelSpan(msgspec.Struct, frozen=True):
    """Tokens `[start, end)` were sampled by weights with this label."""

    start: int
    end: int
    version: str


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A token that could have been sampled."""

    token_id: int
    logprob: float


class Sampled(msgspec.Struct, frozen=True, gc=False):
    """Newly sampled tokens, one logprob each (None where the engine gave none).

    `finish` comes with the last tokens, and with it `spans` over the whole reply; `cached` counts prompt tokens that
    the engine had in its cache, when it says so. `tops` has the likeliest candidates at each place, as far as they were
    asked for. With the first tokens after images come the `prompt_ids` as the engine reads them.
    """

    ids: list[int]
    logprobs: list[float | None]
    finish: Literal["stop", "length"] | None = None
    spans: list[LabelSpan] | None = None
    cached: int | None = None
    tops: list[list[Candidate]] | None = None
    prompt_ids: list[int] | None = None


class EngineStream(Protocol):
    """A reply in progress: the replica that gives it, and its tokens. Where the prompt shows images, `prompt_ids` is
    the prompt as the engine reads it, with all the tokens that stand for them."""

    @property
    def replica(self) -> str: ...

    @property
    def prompt_ids(self) -> list[int] | None: ...

    def __aiter__(self) -> AsyncIterator[Sampled]:
        """The tokens, from the first.

        Raises:
            EngineBroke: the reply ends before its finish.
        """
        ...


class Engine(Protocol):
    """Whatever turns prompt tokens into reply tokens."""

    def generate(
        self, turn: str, want: Want, prompt: Sequence[int], parameters: dict[str, Any], images: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[EngineStream]:
        """Open a reply; it is entered when the first tokens are there. Leaving early aborts it in the engine. `images`
        are data URLs, one for each place that the prompt marks.

        Raises:
            EngineRefused, EngineUnavailable, EngineBusy: before any token.
        """
        ...
