"""A judge model: m votes as structured output, counted by majority.

An answer that is late or does not parse is no vote; too few valid ones are no score (`NoScore`), never a zero. While
the endpoint is down a turn waits for it, however long: only rounds that no outage spoiled count.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from typing import Literal

import msgspec

from drivetrain.common.events import Vote
from drivetrain.judge import meters
from drivetrain.judge.endpoint import Endpoint, Unavailable
from drivetrain.judge.limits.cache import Cache
from drivetrain.judge.settings import ModelSettings
from drivetrain.judge.sources.base import Case, NoScore, Opinion, Source, quote
from drivetrain.judge.sources.prompt import VOTE, material, messages_for
from drivetrain.judge.votes import enough, majority


class _Ballot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    vote: Literal[-1, 0, 1]
    evidence: str
    hint: str | None = None


class ModelJudge(Source):
    """See the module."""

    name = "model"
    costly = True
    within = staticmethod(majority)

    def __init__(self, settings: ModelSettings, endpoint: Endpoint) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._known: Cache[Opinion] = Cache(settings.cache_size)
        self._secret = secrets.token_bytes(16)

    def looks_back(self, case: Case) -> bool:
        return bool(case.after)

    async def judge(self, case: Case) -> Opinion:
        """The votes of the model on a turn that has a next state; nothing is asked about one without.

        Raises:
            NoScore: after the last round, fewer than half of the votes asked for were valid.
        """
        if not case.after:
            return Opinion()
        parts = material(case, self._settings.context_chars, mask=not self._settings.local)
        # The mark cannot be guessed by what is judged, and is the same for the same question.
        key = hashlib.blake2b("\0".join(parts.values()).encode(errors="replace"), key=self._secret).digest()
        if (known := self._known.get(key)) is not None:
            meters.CACHED.inc()
            return known
        opinion = _opinion(await self._ballots(messages_for(parts, mark=key.hex()[:16])))
        self._known.put(key, opinion)
        return opinion

    async def _ballots(self, messages: list[dict[str, str]]) -> list[_Ballot]:
        breaker, rounds = self._endpoint.breaker, self._settings.rounds
        while rounds:
            await breaker.opened()
            outages = breaker.outages
            ballots = await self._round(messages)
            if enough(len(ballots), self._settings.votes):
                return ballots
            await breaker.opened()
            rounds -= breaker.outages == outages
        raise NoScore(f"fewer than half of {self._settings.votes} votes were valid, {self._settings.rounds} times")

    async def _round(self, messages: list[dict[str, str]]) -> list[_Ballot]:
        calls = (self._ballot(messages, seed) for seed in range(self._settings.votes))
        return [ballot for ballot in await asyncio.gather(*calls) if ballot is not None]

    async def _ballot(self, messages: list[dict[str, str]], seed: int) -> _Ballot | None:
        try:
            return _parse(await self._endpoint.complete(messages, seed, VOTE))
        except Unavailable:
            return None


def _parse(answer: str) -> _Ballot | None:
    """A vote with evidence, from an answer that is nothing else; None from any other."""
    try:
        ballot = msgspec.json.decode(answer, type=_Ballot)
    except (msgspec.DecodeError, UnicodeError):
        ballot = None
    if ballot is None or not ballot.evidence.strip():
        meters.UNPARSED.inc()
        return None
    return ballot


def _opinion(ballots: Sequence[_Ballot]) -> Opinion:
    """Each ballot as a vote; the hints are of those that voted with an objecting majority."""
    verdict = majority([ballot.vote for ballot in ballots])
    agreed = sum(ballot.vote == verdict for ballot in ballots) / len(ballots)
    votes = tuple(
        Vote(source="model", value=ballot.vote, evidence=quote(ballot.evidence), confidence=agreed)
        for ballot in ballots
    )
    hints = (ballot.hint for ballot in ballots if ballot.vote == verdict and ballot.hint) if verdict < 0 else ()
    return Opinion(votes, tuple(hints))
