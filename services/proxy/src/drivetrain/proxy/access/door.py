"""The way in: whose key it is, how much it may ask, and how large the request may be."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TypeVar

from starlette.requests import Request

from drivetrain.proxy.access.bounds import Bounds, body_of, within
from drivetrain.proxy.access.keys import Keys, key_in
from drivetrain.proxy.access.principal import Principal
from drivetrain.proxy.access.rates import Rates
from drivetrain.proxy.replies.parts import Finished
from drivetrain.proxy.turns import Ask

P = TypeVar("P")
Parts = AsyncGenerator[tuple[int, P], None]


class Door:
    """What every request passes. `clock` gives unix seconds."""

    def __init__(self, keys: Keys, rates: Rates, bounds: Bounds, clock: Callable[[], float] = time.time) -> None:
        self._keys, self._rates, self._bounds, self._clock = keys, rates, bounds, clock
        self._charges: set[asyncio.Task[None]] = set()

    def principal(self, request: Request) -> Principal:
        """Whom the request's key speaks for.

        Raises:
            Refused: the key is not good.
        """
        headers: Mapping[str, str] = request.headers
        if not key_in(headers) and (key := request.query_params.get("key")):
            headers = {**headers, "x-goog-api-key": key}
        return self._keys.authenticate(headers, self._clock())

    async def enter(self, request: Request) -> tuple[Principal, bytes]:
        """The same, counted as one request of that key, and the body.

        Raises:
            Refused: the key is not good or has used up its minute, or the body is too large or too slow.
        """
        principal = self.principal(request)
        await self._rates.admit(principal)
        return principal, await body_of(request, self._bounds)

    def within(self, ask: Ask) -> Ask:
        """The ask, if it is within bounds.

        Raises:
            Refused: it is not.
        """
        return within(ask, self._bounds)

    def metered(self, principal: Principal, parts: Parts[P], prompt_tokens: int) -> Parts[P]:
        """The same parts; when they end or are closed, their tokens and those of the prompt are charged."""
        return self._counting(principal, parts, prompt_tokens) if principal.tokens_per_minute else parts

    async def _counting(self, principal: Principal, parts: Parts[P], prompt_tokens: int) -> Parts[P]:
        tokens, unfinished = prompt_tokens, Counter[int]()
        try:
            async with aclosing(parts):
                async for index, part in parts:
                    if isinstance(part, Finished):
                        tokens += part.completion_tokens
                        del unfinished[index]
                    else:
                        unfinished[index] += 1  # about a token each
                    yield index, part
        finally:
            # Beside the request, which may be ending because its client left.
            task = asyncio.create_task(self._rates.charge(principal, tokens + unfinished.total()))
            self._charges.add(task)
            task.add_done_callback(self._charges.discard)
