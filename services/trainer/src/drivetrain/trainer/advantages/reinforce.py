"""`reinforce_pp`: the outcome less a price for leaving the reference, whitened over the batch (arXiv 2501.03262)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from drivetrain.trainer.advantages.turns import Signals, Weights

EPSILON = 1e-8


def reinforce_pp(signals: Signals, weights: Weights) -> Tensor:
    """`R - β Σ_{i≥t} (log π_old - log π_ref)_i`, shape (T,): each token pays for what comes from it on."""
    if signals.reference is None:
        raise ValueError("reinforce_pp needs the reference's log-probabilities")
    drift = signals.old - signals.reference
    return signals.reward - weights.beta * drift.flip(0).cumsum(0).flip(0)


def whitened(advantages: Sequence[Tensor], masks: Sequence[Tensor]) -> list[Tensor]:
    """The advantages shifted and scaled to mean 0 and variance 1 over all tokens that count: shapes (T_i,) → (T_i,)."""
    counted = torch.cat([values[mask] for values, mask in zip(advantages, masks, strict=True)])
    if not len(counted):
        return list(advantages)
    mean, spread = counted.mean(), counted.var(correction=0)
    return [(values - mean) / torch.sqrt(spread + EPSILON) for values in advantages]
