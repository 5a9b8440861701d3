"""Advantages: what each response token is worth, by the name of the method.

A rule is a pure function; a method says which rule it is, what it reads, and what has to be trained together. To add
one: a function, and a line in `METHODS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from drivetrain.trainer.advantages.groups import GroupRules, grpo, rloo
from drivetrain.trainer.advantages.reinforce import reinforce_pp, whitened
from drivetrain.trainer.advantages.turns import Signals, Weights, binary, combine, nothing, opd

__all__ = ["METHODS", "GroupRules", "Method", "Signals", "Weights"]

Rule = Callable[[Signals, Weights], Tensor]
Across = Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]]
Baseline = Callable[[Tensor, GroupRules], Tensor]


@dataclass(frozen=True)
class Method:
    """A learning rule by name.

    `rule` gives one turn's advantages from its signals; `across` then works on those of the whole batch, given each
    turn's mask of tokens that count. `unit` is what trains together: a scored turn, all turns of a rollout, or all
    rollouts of a group, whose outcomes `baseline` compares (None with a group: step by step). `distil` adds a loss over
    candidate tokens: the clipped one over the policy's own (`candidates`) or the KL to the teacher (`reverse_kl`).
    """

    name: str
    rule: Rule
    uses_reward: bool = True
    uses_teacher: bool = False
    unit: Literal["turn", "rollout", "group"] = "turn"
    across: Across | None = None
    baseline: Baseline | None = None
    distil: Literal["candidates", "reverse_kl"] | None = None
    uses_reference: bool = False
    supervised: bool = False

    @property
    def votes_count(self) -> bool:
        """Whether each turn's own votes count beside its rollout's outcome."""
        return self.unit == "group" and self.baseline is None

    @property
    def has_ratio(self) -> bool:
        """Whether its loss is one of the policy losses, with a ratio and a correction."""
        return not self.supervised and self.distil != "reverse_kl"

    @property
    def has_anchor(self) -> bool:
        """Whether the KL to the reference is part of its loss."""
        return not self.supervised and not self.uses_reference

    def has_signal(self, reward: float, has_teacher: bool) -> bool:
        """Whether a turn carries any gradient under this method; one that does not is no part of a batch."""
        return (self.uses_reward and reward != 0) or (self.uses_teacher and has_teacher)


METHODS = {
    method.name: method
    for method in (
        Method("binary", binary),
        Method("opd", opd, uses_reward=False, uses_teacher=True),
        Method("combine", combine, uses_teacher=True),
        Method("opd_topk", nothing, uses_reward=False, uses_teacher=True, distil="reverse_kl"),
        Method("hybrid", binary, uses_teacher=True, distil="candidates"),
        Method("grpo", binary, unit="group", baseline=grpo),
        Method("grpo_step", binary, unit="group"),
        Method("rloo", binary, unit="group", baseline=rloo),
        Method("reinforce_pp", reinforce_pp, unit="rollout", across=whitened, uses_reference=True),
        Method("sft", binary, unit="rollout", supervised=True),
    )
}
