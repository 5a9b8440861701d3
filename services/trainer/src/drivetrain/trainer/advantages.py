"""Advantages: what each response token is worth, by the name of the method.

A rule is a pure function of one turn's signals. The loss does not know which rule made its advantages.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, full_like, zeros_like


@dataclass(frozen=True)
class Signals:
    """What is known of one turn. `old` and `teacher` are log-probabilities of its T response tokens, detached:
    under the weights at the batch's start, and under the teacher's with the hint in the prompt (None: no hint)."""

    reward: float
    old: Tensor
    teacher: Tensor | None = None


@dataclass(frozen=True)
class Weights:
    """How much the vote and the teacher count in `combine`."""

    rl: float = 1.0
    opd: float = 1.0


Rule = Callable[[Signals, Weights], Tensor]


@dataclass(frozen=True)
class Method:
    """A rule by name, and which of the two signals it reads."""

    name: str
    rule: Rule
    uses_reward: bool
    uses_teacher: bool

    def has_signal(self, reward: float, has_teacher: bool) -> bool:
        """Whether a turn carries any gradient under this method; one that does not is no part of a batch."""
        return (self.uses_reward and reward != 0) or (self.uses_teacher and has_teacher)


def binary(signals: Signals, weights: Weights) -> Tensor:
    """The vote itself, on every token."""
    return full_like(signals.old, signals.reward)


def opd(signals: Signals, weights: Weights) -> Tensor:
    """How much likelier the token was to the teacher, who had read the hint; 0 without a hint."""
    if signals.teacher is None:
        return zeros_like(signals.old)
    return signals.teacher - signals.old


def combine(signals: Signals, weights: Weights) -> Tensor:
    """The weighted sum of both; a turn that has only one of the signals uses that one alone."""
    return weights.rl * binary(signals, weights) + weights.opd * opd(signals, weights)


METHODS = {
    method.name: method
    for method in (
        Method("binary", binary, uses_reward=True, uses_teacher=False),
        Method("opd", opd, uses_reward=False, uses_teacher=True),
        Method("combine", combine, uses_reward=True, uses_teacher=True),
    )
}
