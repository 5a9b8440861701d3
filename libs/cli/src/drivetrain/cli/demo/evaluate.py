"""Held-out satisfaction, and what must not suffer for it: reply length, variety, and the model's grasp of other text.

Nothing here is recorded: every request says `X-Drivetrain-Record: off`.
"""

import asyncio
import math
import statistics
from collections.abc import Sequence
from importlib import resources
from typing import Any

import httpx
import msgspec

from drivetrain.cli.demo.chat import Chat, RequestFailed
from drivetrain.cli.demo.measures import words
from drivetrain.cli.demo.questions import Question
from drivetrain.cli.demo.sessions import reply_limit
from drivetrain.cli.demo.taste import Taste

UNRECORDED = {"X-Drivetrain-Record": "off"}
Z_95 = 1.959963984540054


class ProbeFailed(RuntimeError):
    """The engine did not score the probe text; the message says why."""


class Share(msgspec.Struct, frozen=True):
    """`hits` of `total`, with a 95% Wilson interval; all three shares are between 0 and 1."""

    hits: int
    total: int
    share: float
    low: float
    high: float


class Answer(msgspec.Struct, frozen=True):
    """A held-out question, the reply, and in which ways it misses the taste."""

    question: str
    reply: str
    finish: str
    misses: list[str]


class Heldout(msgspec.Struct, frozen=True, kw_only=True):
    """One round of the held-out questions. `distinct` is the share of different replies among all of them,
    `perplexity` that of the fixed probe text under the weights that are served."""

    satisfied: Share
    median_words: float
    distinct: float
    perplexity: float
    answers: list[Answer]


def wilson(hits: int, total: int, z: float = Z_95) -> Share:
    """The share of hits with Wilson's interval: sound also for few trials and for shares near 0 and 1.

    Raises:
        ValueError: no trials, or more hits than trials.
    """
    if not 0 <= hits <= total or total == 0:
        raise ValueError(f"{hits} hits of {total} trials have no interval: at least one trial is needed")
    share, square = hits / total, z * z / total
    centre = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / total + square / (4 * total))
    # At 0 and 1 the bound is the share itself; floating point may put it a hair inside
    return Share(hits, total, share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))


def summarise(answers: Sequence[Answer], perplexity: float) -> Heldout:
    """Figures of a round of answers; the order of the answers does not matter."""
    replies = [answer.reply for answer in answers]
    return Heldout(
        satisfied=wilson(sum(not answer.misses for answer in answers), len(answers)),
        median_words=float(statistics.median(len(words(reply)) for reply in replies)),
        distinct=len({" ".join(reply.lower().split()) for reply in replies}) / len(replies),
        perplexity=perplexity,
        answers=list(answers),
    )


async def evaluate(
    chat: Chat, taste: Taste, questions: Sequence[Question], vllm_url: str, at_once: int = 16
) -> Heldout:
    """Ask each question once, and score the probe text.

    A request that fails counts among the chat's problems and as a reply that misses.

    Raises:
        ProbeFailed: the engine did not score the probe text.
    """
    slots = asyncio.Semaphore(at_once)

    async def answer(question: Question) -> Answer:
        async with slots:
            return await _answer(chat, taste, question)

    answers = await asyncio.gather(*(answer(question) for question in questions))
    return summarise(answers, await perplexity(vllm_url, probe_passages()))


async def _answer(chat: Chat, taste: Taste, question: Question) -> Answer:
    try:
        reply = await chat.ask([{"role": "user", "content": question.text}], reply_limit(taste), UNRECORDED)
    except RequestFailed as error:
        return Answer(question.text, "", "failed", [f"the request failed: {error}"])
    misses = [f"{miss.check}: {miss.how}" for miss in taste.misses(reply.text, question.subject)]
    return Answer(question.text, reply.text, reply.finish, misses)


def probe_passages() -> list[str]:
    """The fixed passages that have nothing to do with any taste or question."""
    return (resources.files("drivetrain.cli.demo") / "probe.txt").read_text().strip().split("\n\n")


async def perplexity(vllm_url: str, passages: Sequence[str]) -> float:
    """The perplexity per token of the passages, each on its own, under the weights that the engine serves now.

    Raises:
        ProbeFailed: the engine could not be reached or gave no logprobs.
    """
    logprobs: list[float] = []
    try:
        async with httpx.AsyncClient(base_url=vllm_url, timeout=120.0, trust_env=False) as client:
            model = (await client.get("/v1/models")).raise_for_status().json()["data"][0]["id"]
            for passage in passages:
                request = {"model": model, "prompt": passage, "max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
                response = (await client.post("/v1/completions", json=request)).raise_for_status()
                logprobs += prompt_logprobs(response.json())
    except (httpx.HTTPError, KeyError, IndexError, ValueError) as error:
        raise ProbeFailed(f"the engine at {vllm_url} did not score the probe text: {error!r}") from error
    return math.exp(-statistics.fmean(logprobs))


def prompt_logprobs(body: dict[str, Any]) -> list[float]:
    """The logprob of every prompt token but the first, from a completion that was asked for `prompt_logprobs: 0`.

    Raises:
        KeyError, IndexError, ValueError: there are none in it.
    """
    positions = body["choices"][0]["prompt_logprobs"]
    if not positions:
        raise ValueError("no prompt_logprobs in the completion")
    return [float(next(iter(position.values()))["logprob"]) for position in positions if position]
