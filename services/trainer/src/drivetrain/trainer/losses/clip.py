"""`clip`: the clipped policy loss with an asymmetric range, and a cap for tokens with a negative advantage."""

from dataclasses import dataclass

import torch
from torch import Tensor

from drivetrain.trainer.losses.tokens import LOG_RATIO_LIMIT


@dataclass(frozen=True)
class Clip:
    """Bounds of the ratio, and the cap on the loss of a token with a negative advantage (in units of |A|)."""

    low: float = 0.2
    high: float = 0.28
    dual: float = 3.0


def clipped(logp: Tensor, old: Tensor, advantage: Tensor, clip: Clip) -> tuple[Tensor, Tensor]:
    """`max(-A ρ, -A clip(ρ))` with ρ = exp(logp - old), at most `dual·|A|` where A < 0; and which tokens it cut.

    All shapes (T,)."""
    ratio = torch.exp((logp - old).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    plain = -advantage * ratio
    bounded = -advantage * ratio.clamp(1 - clip.low, 1 + clip.high)
    worst = torch.maximum(plain, bounded)
    cap = clip.dual * advantage.abs()
    loss = torch.where(advantage < 0, torch.minimum(worst, cap), worst)
    return loss, (bounded > plain) | ((advantage < 0) & (worst > cap))
