"""A judge model over any OpenAI-compatible endpoint: m votes as structured output, counted by majority.

A vote that times out or does not parse is no vote; too few valid ones are no score (`NoScore`), never a zero. The
calls of all turns share one limit on concurrency.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Literal

import httpx
import msgspec
import stamina

from drivetrain.common.events import Vote
from drivetrain.judge.settings import ModelSettings
from drivetrain.judge.sources.base import Case, NoScore, Opinion, quote
from drivetrain.judge.sources.prompt import VOTE, messages_for
from drivetrain.judge.votes import enough, majority


class Unavailable(RuntimeError):
    """The endpoint did not answer in time, refused for now, or failed: worth another try."""


class BadVote(ValueError):
    """An answer that is no vote: not JSON, not the schema, or a refusal that a retry would not change."""


class _Ballot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    vote: Literal[-1, 0, 1]
    evidence: str
    hint: str | None = None


class ModelJudge:
    """See the module. `client` is the caller's to close; it carries no base URL and no credentials of its own."""

    name = "model"
    costly = True

    def __init__(self, settings: ModelSettings, client: httpx.AsyncClient) -> None:
        self._settings = settings
        self._client = client
        self._slots = asyncio.Semaphore(settings.concurrency)

    async def judge(self, case: Case) -> Opinion:
        """The votes of the model on a turn that has a next state; nothing is asked about one without.

        Raises:
            NoScore: after the last round, fewer than half of the votes asked for were valid.
        """
        if not case.after:
            return Opinion()
        messages = messages_for(case, self._settings.context_chars)
        for _ in range(self._settings.rounds):
            ballots = await self._round(messages)
            if enough(len(ballots), self._settings.votes):
                return _opinion(ballots)
        raise NoScore(f"fewer than half of {self._settings.votes} votes were valid, {self._settings.rounds} times")

    async def _round(self, messages: list[dict[str, str]]) -> list[_Ballot]:
        calls = (self._ballot(messages, seed) for seed in range(self._settings.votes))
        return [ballot for ballot in await asyncio.gather(*calls) if ballot is not None]

    async def _ballot(self, messages: list[dict[str, str]], seed: int) -> _Ballot | None:
        retrying = stamina.retry_context(
            on=Unavailable,
            attempts=self._settings.attempts,
            timeout=None,
            wait_initial=self._settings.retry_wait_s,
            wait_max=30.0,
            wait_jitter=self._settings.retry_wait_s,
        )
        try:
            async for attempt in retrying:
                with attempt:
                    async with self._slots:
                        return _parse(await self._ask(messages, seed))
        except (Unavailable, BadVote):
            return None
        return None

    async def _ask(self, messages: list[dict[str, str]], seed: int) -> bytes:
        """One call. The timeout bounds all of it, a stream of header bytes included.

        Raises:
            Unavailable: a connection error, a timeout, 408, 409, 425, 429 or 5xx.
            BadVote: another status.
        """
        key = self._settings.api_key
        body = {
            "model": self._settings.model,
            "messages": messages,
            "temperature": self._settings.temperature,
            "max_tokens": self._settings.max_tokens,
            "seed": seed,
            "response_format": {"type": "json_schema", "json_schema": VOTE},
        }
        headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        url = f"{self._settings.url.rstrip('/')}/chat/completions"
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                response = await self._client.post(url, json=body, headers=headers, timeout=None)
        except (httpx.HTTPError, TimeoutError) as error:
            raise Unavailable(repr(error)) from error
        if response.status_code in (408, 409, 425, 429) or response.status_code >= 500:
            raise Unavailable(f"status {response.status_code}")
        if response.status_code != 200:
            raise BadVote(f"status {response.status_code}")
        return response.content


def _parse(answer: bytes) -> _Ballot:
    """A vote from a chat completion.

    Raises:
        BadVote: anything but a choice whose content is a vote with evidence.
    """
    try:
        content = json.loads(answer)["choices"][0]["message"]["content"]
        ballot = msgspec.json.decode(content, type=_Ballot)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise BadVote(f"not a vote: {error}") from error
    if not ballot.evidence.strip():
        raise BadVote("a vote without evidence")
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
