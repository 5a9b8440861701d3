"""`gspo`: one ratio for a whole reply, the geometric mean of its tokens' ratios (Zheng et al., arXiv 2507.18071)."""

import torch
from torch import Tensor

from drivetrain.trainer.losses.clip import Clip
from drivetrain.trainer.losses.tokens import LOG_RATIO_LIMIT


def sequence_clipped(logp: Tensor, old: Tensor, advantage: Tensor, clip: Clip) -> tuple[Tensor, Tensor]:
    """The clipped loss with `s = (π_θ/π_old)^(1/T)` in place of each token's ratio; its gradient goes through
    `sg(s)·π_θ/sg(π_θ)`, so that advantages may differ by token. Divided by T: the sum over tokens is the reply's loss,
    to be averaged over replies. Shapes (T,); `clip.dual` is not used."""
    mean = (logp - old).detach().mean().clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    ratio = torch.exp(mean + logp - logp.detach())
    plain = -advantage * ratio
    bounded = -advantage * ratio.clamp(1 - clip.low, 1 + clip.high)
    return torch.maximum(plain, bounded) / max(1, len(logp)), bounded > plain
