"""Runs the judge's chain over a labelled set."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from drivetrain.judge.chain import Chain, Judgement
from drivetrain.judge.evaluation.labelled import Labelled


class Judged(msgspec.Struct, frozen=True):
    """A labelled turn and what the judge made of it: +1, -1, 0, or None where it gave no score.

    `confidence` is the mean of the votes that decided, None where none did. `seconds` is how long it took.
    """

    turn: Labelled
    verdict: int | None
    confidence: float | None
    hints: tuple[str, ...]
    seconds: float


async def measure(
    chain: Chain, turns: Sequence[Labelled], concurrency: int, clock: Callable[[], float]
) -> list[Judged]:
    """What the chain makes of each turn, in order; so many are judged at a time. `clock` counts seconds."""
    slots = asyncio.Semaphore(concurrency)

    async def one(turn: Labelled) -> Judged:
        async with slots:
            case = turn.case(chain.looks_back(turn.case(with_history=False)))
            began = clock()
            judgement = await chain.judge(case)
            return judged(turn, judgement, clock() - began)

    return list(await asyncio.gather(*map(one, turns)))


def judged(turn: Labelled, judgement: Judgement, seconds: float) -> Judged:
    """A judgement beside its label."""
    verdict = None if judgement.reward is None else _sign(judgement.reward)
    confidence = None
    if verdict:
        behind = [v for v in judgement.votes if v.source == judgement.decided_by and _sign(v.value) == verdict]
        confidence = sum(vote.confidence for vote in behind) / len(behind) if behind else None
    return Judged(turn, verdict, confidence, judgement.hints, seconds)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
