"""Losses over several candidates at each response position, where a teacher's whole opinion counts, not only its
opinion of the token that was sampled. Shapes (T, K): positions, candidates."""

import torch
from torch import Tensor

from drivetrain.trainer.losses.tokens import LOG_RATIO_LIMIT

LEAST_TAIL = 1e-6
"""Smallest probability of all tokens outside the candidates; below it, float32 rounding is all there is."""


def candidate_loss(logp: Tensor, old: Tensor, advantage: Tensor, low: float = 0.2, high: float = 0.28) -> Tensor:
    """`Σ_v max(-A_v ρ_v, -A_v clip(ρ_v))` with ρ = exp(logp - old): (T, K) → (T,)."""
    ratio = torch.exp((logp - old).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    return torch.maximum(-advantage * ratio, -advantage * ratio.clamp(1 - low, 1 + high)).sum(-1)


def reverse_kl(logp: Tensor, teacher: Tensor) -> Tensor:
    """KL(policy‖teacher) over the candidates and one bin for all other tokens, both given by their log-probabilities:
    (T, K) → (T,). Never negative, and 0 only where both agree."""
    student, other = _with_tail(logp), _with_tail(teacher)
    return (student.exp() * (student - other)).sum(-1)


def _with_tail(logp: Tensor) -> Tensor:
    """(T, K) → (T, K + 1): the candidates and the log-probability of all else."""
    tail = (1 - logp.exp().sum(-1, keepdim=True)).clamp(min=LEAST_TAIL).log()
    return torch.cat([logp, tail], dim=-1)
