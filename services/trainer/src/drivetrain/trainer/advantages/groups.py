"""Rules that compare the rollouts of one task, the members of a group, by their outcomes.

`outcomes` has shape (G,): one entry per member, also for members without a turn to train.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

EPSILON = 1e-6


@dataclass(frozen=True)
class GroupRules:
    """`norm`: divide by the group's standard deviation (`std`, with `ddof` degrees of freedom taken off) or only
    subtract its mean (`mean`). `step_weight` is how much a turn's own votes count beside its rollout's outcome in
    `grpo_step`."""

    norm: Literal["std", "mean"] = "std"
    ddof: int = 0
    step_weight: float = 1.0


def grpo(outcomes: Tensor, rules: GroupRules = GroupRules()) -> Tensor:
    """`(R - mean) / (std + 1e-6)`, or without the division: (G,) → (G,). DeepSeekMath, arXiv 2402.03300."""
    centred = outcomes - outcomes.mean()
    if rules.norm == "mean" or len(outcomes) <= rules.ddof:
        return centred
    return centred / (outcomes.std(correction=rules.ddof) + EPSILON)


def rloo(outcomes: Tensor, rules: GroupRules = GroupRules()) -> Tensor:
    """`R - mean of the others`: (G,) → (G,); 0 for a member without others. Ahmadian et al., arXiv 2402.14740."""
    others = len(outcomes) - 1
    if others < 1:
        return torch.zeros_like(outcomes)
    return outcomes - (outcomes.sum() - outcomes) / others


def grpo_step(
    outcomes: Tensor,
    votes: Sequence[Sequence[float]],
    rules: GroupRules = GroupRules(),
) -> list[list[float]]:
    """`grpo` of `r_t = outcome + step_weight · s_t` over the members that have a step t, for each t; a step that only
    one member has keeps its raw value. `votes[g][t]` is s_t, the mean of step t's votes (0 if none)."""
    values = [
        [float(outcome) + rules.step_weight * vote for vote in steps]
        for outcome, steps in zip(outcomes.tolist(), votes, strict=True)
    ]
    for step in range(max(map(len, values), default=0)):
        having = [row for row in values if len(row) > step]
        if len(having) > 1:
            compared = grpo(torch.tensor([row[step] for row in having], dtype=torch.float64), rules)
            for row, value in zip(having, compared.tolist(), strict=True):
                row[step] = value
    return values


def is_constant(outcomes: Tensor) -> bool:
    """Whether all members fared the same, so that there is nothing to compare."""
    return bool((outcomes == outcomes[0]).all())
