"""`hybrid`'s distillation part: what the teacher thinks of the policy's likeliest tokens at each position.

Candidates are given by token ids, shape (T, K), and log-probabilities, shape (T, K).
"""

from collections.abc import Sequence

from torch import Tensor


def overlap(student: Tensor, teacher: Tensor) -> int:
    """How many of the policy's candidates are the teacher's too, over all positions; ids of shape (T, K)."""
    return int((student[:, :, None] == teacher[:, None, :]).any(-1).sum())


def closest_hint(student: Tensor, teachers: Sequence[Tensor]) -> int:
    """Which hint's teacher shares most candidates with the policy, the first of equals: the least foreign advice."""
    return max(range(len(teachers)), key=lambda number: (overlap(student, teachers[number]), -number))


def candidate_advantages(old: Tensor, teacher: Tensor, bound: float = 1.0) -> Tensor:
    """`w_v Δ_v`, (T, K) → (T, K): `w` the policy's probabilities among the candidates, `Δ = log π_T - log π_old` within
    ±bound. No gradient goes through it."""
    weight = old.softmax(-1)
    return (weight * (teacher - old).clamp(-bound, bound)).detach()
