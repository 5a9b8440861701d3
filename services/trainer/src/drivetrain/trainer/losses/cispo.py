"""`cispo`: clip the weight, not the gradient, so that rare tokens go on learning (MiniMax-M1, arXiv 2506.13585)."""

import torch
from torch import Tensor

from drivetrain.trainer.losses.tokens import LOG_RATIO_LIMIT


def weight_clipped(logp: Tensor, old: Tensor, advantage: Tensor, cap: float) -> tuple[Tensor, Tensor]:
    """`-sg(min(ρ, cap))·A·logp`, shapes (T,); and the tokens whose weight was cut."""
    ratio = torch.exp((logp - old).detach().clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    return -ratio.clamp(max=cap) * advantage * logp, ratio > cap
