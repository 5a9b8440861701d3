"""Rules that look at one turn alone: the vote, the teacher who had read the hint, or both."""

from dataclasses import dataclass

from torch import Tensor, full_like, zeros_like


@dataclass(frozen=True)
class Signals:
    """What is known of one turn. `reward` is the vote, or what the turn's group made of its outcome. The rest are
    log-probabilities of its T response tokens, shape (T,), detached: under the weights at the batch's start (`old`),
    under the teacher's with the hint in the prompt (None: no hint), under the reference (None: not asked for)."""

    reward: float
    old: Tensor
    teacher: Tensor | None = None
    reference: Tensor | None = None


@dataclass(frozen=True)
class Weights:
    """How much the vote and the teacher count in `combine`, and the KL to the reference in `reinforce_pp`."""

    rl: float = 1.0
    opd: float = 1.0
    beta: float = 0.01


def binary(signals: Signals, weights: Weights) -> Tensor:
    """The reward itself, on every token."""
    return full_like(signals.old, signals.reward)


def opd(signals: Signals, weights: Weights) -> Tensor:
    """How much likelier the token was to the teacher, who had read the hint; 0 without a hint."""
    if signals.teacher is None:
        return zeros_like(signals.old)
    return signals.teacher - signals.old


def combine(signals: Signals, weights: Weights) -> Tensor:
    """The weighted sum of both; a turn that has only one of the signals uses that one alone."""
    return weights.rl * binary(signals, weights) + weights.opd * opd(signals, weights)


def nothing(signals: Signals, weights: Weights) -> Tensor:
    """0: all that is learnt from the turn lies in the loss over its candidates."""
    return zeros_like(signals.old)
