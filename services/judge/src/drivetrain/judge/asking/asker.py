"""Asks a judge model the same question several times.

An answer that is late or does not parse is no answer; too few valid ones are no score (`NoScore`), never a zero. While
the endpoint is down a question waits for it, however long: only rounds that no outage spoiled count.
"""

import asyncio
import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from drivetrain.judge import meters
from drivetrain.judge.asking.prompt import messages_for
from drivetrain.judge.endpoint import Endpoint, Unavailable
from drivetrain.judge.limits.cache import Cache, LocalCache
from drivetrain.judge.settings import ModelSettings
from drivetrain.judge.sources.base import NoScore
from drivetrain.judge.votes import enough

T = TypeVar("T")


@dataclass(frozen=True)
class Question(Generic[T]):
    """What is asked. `instructions` hold `{mark}`, `parts` the material by name; `parse` makes an answer's text a valid
    answer, or None; `votes` answers are asked for, `room` tokens each."""

    instructions: str
    parts: Mapping[str, str]
    schema: dict[str, Any]
    parse: Callable[[str], T | None]
    votes: int
    room: int


class Asker:
    """See the module. `cache` keeps valid answers, by default in this process."""

    def __init__(self, settings: ModelSettings, endpoint: Endpoint, cache: Cache | None = None) -> None:
        self.settings = settings
        self.endpoint = endpoint
        self._cache = cache if cache is not None else LocalCache(settings.cache_size)
        self._secret = secrets.token_bytes(16)

    async def ask(self, question: Question[T]) -> list[T]:
        """The valid answers, at least half of those asked for.

        Raises:
            NoScore: there were fewer, in each of the rounds that the settings allow.
        """
        key = self._key(question)
        if (known := await self._known(key, question)) is not None:
            meters.CACHED.inc()
            return known
        # The mark cannot be guessed by what is judged, and is the same for the same question.
        mark = hashlib.blake2b(key, key=self._secret).hexdigest()[:16]
        answers = await self._rounds(question, messages_for(question.instructions, question.parts, mark))
        await self._cache.put(key, json.dumps([text for text, _ in answers]).encode())
        return [answer for _, answer in answers]

    def _key(self, question: Question[T]) -> bytes:
        """A hash of all that shapes the answers."""
        s = self.settings
        asked = [s.url, s.model, s.format, s.temperature, question.votes, question.room, question.instructions]
        content = json.dumps([asked, question.schema, list(question.parts.items())])
        return hashlib.blake2b(content.encode(), digest_size=32).digest()

    async def _known(self, key: bytes, question: Question[T]) -> list[T] | None:
        if (stored := await self._cache.get(key)) is None:
            return None
        found = [question.parse(text) for text in json.loads(stored)]
        return [answer for answer in found if answer is not None] or None

    async def _rounds(self, question: Question[T], messages: list[dict[str, str]]) -> list[tuple[str, T]]:
        breaker, rounds = self.endpoint.breaker, self.settings.rounds
        while rounds:
            await breaker.opened()
            outages = breaker.outages
            calls = (self._one(question, messages, seed) for seed in range(question.votes))
            answers = [answer for answer in await asyncio.gather(*calls) if answer is not None]
            if enough(len(answers), question.votes):
                return answers
            await breaker.opened()
            rounds -= breaker.outages == outages
        raise NoScore(f"fewer than half of {question.votes} answers were valid, {self.settings.rounds} times")

    async def _one(self, question: Question[T], messages: list[dict[str, str]], seed: int) -> tuple[str, T] | None:
        try:
            text = await self.endpoint.complete(messages, seed, question.schema, question.room)
        except Unavailable:
            return None
        if (answer := question.parse(text)) is None:
            meters.UNPARSED.inc()
            return None
        return text, answer
