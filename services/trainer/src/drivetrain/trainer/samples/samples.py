"""A turn as the learner sees it, built from the recorded chain of turns and its score."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from drivetrain.common.events import TurnRecorded, TurnScored
from drivetrain.common.tokens import unpack_ids, unpack_logprobs


class Reason(StrEnum):
    """Why a scored turn is not trained. Every drop is counted under one of these."""

    OTHER_JUDGE = "other_judge"
    UNRESOLVED = "unresolved"
    NO_SIGNAL = "no_signal"
    NOT_TRAINABLE = "not_trainable"
    NO_CONSENT = "no_consent"
    INEXACT = "inexact"
    MASKED = "masked"
    SIDE = "side"
    UNFINISHED = "unfinished"
    EMPTY = "empty"
    MALFORMED = "malformed"
    TOO_LONG = "too_long"
    MISSING = "missing"
    STALE = "stale"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    LATE = "late"
    REDELIVERED = "redelivered"
    NON_FINITE = "non_finite"
    CONSTANT = "constant"


class Unusable(ValueError):
    """A scored turn that must not be trained; `reason` is what the drop counter is labelled with."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason


@dataclass(frozen=True)
class Sample:
    """One turn to train.

    `prompt_ids` is the whole prompt, `teacher_ids` the same prompt with the hint in it (None: no teacher),
    `other_teachers` with one of the other hints each.
    `logprobs` (μ, as the engine sampled; NaN where it gave none) and `versions` hold one entry per response token.
    `sequence` is the score's place in its stream, `seen` how much of what followed the turn the judge knew.
    """

    session: str
    turn: str
    sequence: int
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    temperature: float
    reward: float
    teacher_ids: tuple[int, ...] | None = None
    other_teachers: tuple[tuple[int, ...], ...] = ()
    seen: int = 0

    @property
    def key(self) -> str:
        """Names the turn, whichever of its scores this is."""
        return f"{self.session}/{self.turn}"

    @property
    def trainable_tokens(self) -> int:
        """Response tokens with an engine logprob; the others are masked out."""
        return sum(not math.isnan(value) for value in self.logprobs)


def refuse_untrainable(turn: TurnRecorded, exact: bool = True) -> None:
    """Check all that a recorded turn says of itself; without `exact`, how it was sampled does not matter.

    Raises:
        Unusable: a side turn, a reply without consent to train, masked, cut off, or not recorded exactly.
    """
    if turn.consent != "train":
        raise Unusable(Reason.NO_CONSENT)
    if turn.masked:
        raise Unusable(Reason.MASKED, turn.masked)
    if turn.kind != "main":
        raise Unusable(Reason.SIDE)
    if turn.finish in ("aborted", "error"):
        raise Unusable(Reason.UNFINISHED, turn.finish)
    if not exact:
        return
    if not turn.exact:
        raise Unusable(Reason.INEXACT, turn.inexact_reason)
    if turn.sampling.temperature <= 0:
        raise Unusable(Reason.INEXACT, "sampled greedily")


def whole_prompt(chain: Sequence[TurnRecorded]) -> tuple[int, ...]:
    """The prompt of the chain's last turn: every ancestor's new prompt and response tokens, then its own prompt."""
    ids: list[int] = []
    for ancestor in chain[:-1]:
        ids += unpack_ids(ancestor.prompt_ids) + unpack_ids(ancestor.response_ids)
    return (*ids, *unpack_ids(chain[-1].prompt_ids))


def make_sample(scored: TurnScored, sequence: int, chain: Sequence[TurnRecorded], max_tokens: int) -> Sample:
    """A sample without teacher from a score and its turn's chain (root first, the scored turn last).

    Raises:
        Unusable: the turn must not or cannot be trained.
    """
    refuse_untrainable(chain[-1])
    if scored.reward is None:
        raise Unusable(Reason.UNRESOLVED)
    return replace(sample_of(chain, sequence, max_tokens), reward=scored.reward, seen=scored.seen)


def sample_of(chain: Sequence[TurnRecorded], sequence: int, max_tokens: int, exact: bool = True) -> Sample:
    """A sample with reward 0 from a turn's chain; without `exact`, the engine's log-probabilities are not needed.

    Raises:
        Unusable: the turn must not or cannot be trained.
    """
    refuse_untrainable(chain[-1], exact)
    sample = _unpacked(0.0, 0, sequence, chain)
    counts = sample.trainable_tokens if exact else len(sample.response_ids)
    if not counts or not sample.prompt_ids:
        raise Unusable(Reason.EMPTY)
    if len(sample.prompt_ids) + len(sample.response_ids) > max_tokens:
        raise Unusable(Reason.TOO_LONG, f"over {max_tokens} tokens")
    return sample


def _unpacked(reward: float, seen: int, sequence: int, chain: Sequence[TurnRecorded]) -> Sample:
    turn = chain[-1]
    try:
        prompt, response = whole_prompt(chain), tuple(unpack_ids(turn.response_ids))
        logprobs = tuple(unpack_logprobs(turn.logprobs))
    except ValueError as error:
        raise Unusable(Reason.MALFORMED, str(error)) from error
    versions = tuple(span.version for span in turn.versions for _ in range(span.start, span.end))
    if len(versions) != len(response) or len(logprobs) != len(response):
        raise Unusable(Reason.MALFORMED, "logprobs or version spans do not cover the response")
    return Sample(
        session=turn.session,
        turn=turn.turn,
        sequence=sequence,
        prompt_ids=prompt,
        response_ids=response,
        logprobs=logprobs,
        versions=versions,
        temperature=turn.sampling.temperature or 1.0,
        reward=reward,
        seen=seen,
    )
