"""The clipped policy loss, the correction for what the engine sampled with, and the anchor to a frozen reference.

All tensors are per response token, shape (T,), log-probabilities in nats. `logp` alone carries a gradient.
Losses come back per token; whoever sums them divides by the *batch's* trainable tokens, so that how a batch is
split into samples or micro-batches changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

LOG_RATIO_LIMIT = 20.0
KL_LOG_RATIO_LIMIT = 10.0


@dataclass(frozen=True)
class Clip:
    """Bounds of the ratio, and the cap on the loss of a token with a negative advantage (in units of |A|)."""

    low: float = 0.2
    high: float = 0.28
    dual: float = 3.0


@dataclass(frozen=True)
class Tokens:
    """One turn's response tokens. `mu` is NaN where the engine gave no logprob: such a token is masked out."""

    logp: Tensor
    old: Tensor
    mu: Tensor
    advantage: Tensor
    reference: Tensor | None = None


@dataclass(frozen=True)
class TokenLosses:
    """Per-token terms of one turn, already masked and corrected; `clipped` marks tokens whose gradient was cut."""

    policy: Tensor
    kl: Tensor
    clipped: Tensor
    mask: Tensor


def clipped_policy_loss(logp: Tensor, old: Tensor, advantage: Tensor, clip: Clip) -> tuple[Tensor, Tensor]:
    """`max(-A ρ, -A clip(ρ))` with ρ = exp(logp - old), at most `dual·|A|` where A < 0; and which tokens it cut."""
    ratio = torch.exp((logp - old).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    plain = -advantage * ratio
    bounded = -advantage * ratio.clamp(1 - clip.low, 1 + clip.high)
    worst = torch.maximum(plain, bounded)
    cap = clip.dual * advantage.abs()
    loss = torch.where(advantage < 0, torch.minimum(worst, cap), worst)
    return loss, (bounded > plain) | ((advantage < 0) & (worst > cap))


def truncated_importance(old: Tensor, mu: Tensor, cap: float) -> Tensor:
    """`tis`: min(π_old/μ, cap), detached: covers the gap between engine and trainer, and staleness."""
    return torch.exp((old - mu).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)).clamp(max=cap).detach()


def no_correction(old: Tensor, mu: Tensor, cap: float) -> Tensor:
    """`none`: weight 1, as if the trainer itself had sampled."""
    return torch.ones_like(old)


Correction = Callable[[Tensor, Tensor, float], Tensor]
CORRECTIONS: dict[str, Correction] = {"tis": truncated_importance, "none": no_correction}


def k3(logp: Tensor, reference: Tensor) -> Tensor:
    """`e^d - d - 1` with d = reference - logp, clamped to ±10: never negative, 0 where both agree. As a loss its
    gradient is that of KL(reference‖policy)."""
    d = (reference - logp).clamp(-KL_LOG_RATIO_LIMIT, KL_LOG_RATIO_LIMIT)
    return torch.exp(d) - d - 1


def k2(logp: Tensor, reference: Tensor) -> Tensor:
    """`d²/2` with d = reference - logp, clamped to ±10. As a loss its gradient is that of KL(policy‖reference): the
    stronger, the less the reference would ever say a token."""
    return (reference - logp).clamp(-KL_LOG_RATIO_LIMIT, KL_LOG_RATIO_LIMIT).square() / 2


Anchor = Callable[[Tensor, Tensor], Tensor]
ANCHORS: dict[str, Anchor] = {"k3": k3, "k2": k2}


def token_losses(tokens: Tokens, clip: Clip, correction: Correction, cap: float, anchor: Anchor = k3) -> TokenLosses:
    """The policy and KL terms of one turn's tokens; zero where the engine gave no logprob."""
    mask = ~torch.isnan(tokens.mu)
    mu = torch.where(mask, tokens.mu, tokens.old)
    w = correction(tokens.old, mu, cap) * mask
    policy, clipped = clipped_policy_loss(tokens.logp, tokens.old, tokens.advantage, clip)
    kl = torch.zeros_like(policy) if tokens.reference is None else anchor(tokens.logp, tokens.reference)
    return TokenLosses(policy=w * policy, kl=w * kl, clipped=clipped & mask, mask=mask)
