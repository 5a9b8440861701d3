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


class EngineBroke(EngineError):
    """The engine ended in mid-reply: it died, stalled or sent what cannot be read."""


class LabelSpan(msgspec.Struct, frozen=True):
    """Tokens `[start, end)` were sampled by weights with this label."""

    start: int
    end: int
    version: str


class Sampled(msgspec.Struct, frozen=True):
    """Newly sampled tokens, one logprob each (None where the engine gave none).

    `finish` comes with the last tokens, and with it `spans` over the whole reply; `cached` counts prompt tokens that
    the engine had in its cache, when it says so.
    """

    ids: list[int]
    logprobs: list[float | None]
    finish: Literal["stop", "length"] | None = None
    spans: list[LabelSpan] | None = None
    cached: int | None = None


class EngineStream(Protocol):
    """A reply in progress: the replica that gives it, and its tokens."""

    @property
    def replica(self) -> str: ...

    def __aiter__(self) -> AsyncIterator[Sampled]:
        """The tokens, from the first.

        Raises:
            EngineBroke: the reply ends before its finish.
        """
        ...


class Engine(Protocol):
    """Whatever turns prompt tokens into reply tokens."""

    def generate(
        self, turn: str, session: str, prompt: Sequence[int], parameters: dict[str, Any]
    ) -> AbstractAsyncContextManager[EngineStream]:
        """Open a reply; it is entered when the first tokens are there. Leaving early aborts it in the engine.

        Raises:
            EngineRefused, EngineUnavailable: before any token.
        """
        ...

    async def context_tokens(self) -> int | None:
        """How many tokens prompt and reply may have together, or None while no replica answers."""
        ...
