"""Losses by name. The loss does not know which rule made its advantages.

Losses come back per token; whoever sums them divides by the *batch's* trainable tokens (or replies, see `Objective`),
so that how a batch is split into packs changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor

from drivetrain.trainer.losses.anchor import ANCHORS, Anchor, k3
from drivetrain.trainer.losses.cispo import weight_clipped
from drivetrain.trainer.losses.clip import Clip, clipped
from drivetrain.trainer.losses.corrections import CORRECTIONS, Correction, correction, none, tis
from drivetrain.trainer.losses.gspo import sequence_clipped
from drivetrain.trainer.losses.sft import negative_log_likelihood
from drivetrain.trainer.losses.tokens import LOG_RATIO_LIMIT, TokenLosses, Tokens

__all__ = ["ANCHORS", "CORRECTIONS", "LOSSES", "Anchor", "Clip", "Correction", "Objective", "TokenLosses", "Tokens",
           "correction", "none", "objective", "tis", "token_losses"]  # fmt: skip

PolicyLoss = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From logp, old and advantage, shapes (T,), to the loss and which tokens it cut."""


@dataclass(frozen=True)
class Objective:
    """What is minimised over one turn's tokens. `per_reply`: the policy loss is averaged over replies, not tokens.
    `bypass`: the ratio is π_θ/μ, so that nothing is left to correct. Without `needs_engine`, tokens without an engine
    logprob count too."""

    policy: PolicyLoss
    correction: Correction = tis
    anchor: Anchor = k3
    per_reply: bool = False
    bypass: bool = False
    needs_engine: bool = True


LOSSES: dict[str, Callable[..., PolicyLoss]] = {
    "clip": lambda **options: partial(clipped, clip=Clip(**options)),
    "gspo": lambda **options: partial(sequence_clipped, clip=Clip(**{"low": 3e-4, "high": 4e-4} | options)),
    "cispo": lambda cap=5.0: partial(weight_clipped, cap=cap),
    "sft": lambda: negative_log_likelihood,
}


def objective(
    loss: str,
    options: Mapping[str, float] = MappingProxyType({}),
    correct: Correction = tis,
    anchor: Anchor = k3,
    bypass: bool = False,
) -> Objective:
    """The objective with the loss of that name; `options` are the loss's own."""
    policy, engine = LOSSES[loss](**options), loss != "sft"
    return Objective(policy, correct if engine else none, anchor, loss == "gspo", bypass, engine)


def trainable(mu: Tensor, aim: Objective) -> Tensor:
    """Which of a turn's tokens count, shape (T,)."""
    return ~torch.isnan(mu) if aim.needs_engine else torch.ones_like(mu, dtype=torch.bool)


def token_losses(tokens: Tokens, aim: Objective) -> TokenLosses:
    """The policy and KL terms of one turn's tokens; zero where a token does not count."""
    mask = trainable(tokens.mu, aim)
    mu = torch.where(torch.isnan(tokens.mu), tokens.old, tokens.mu)
    base = mu if aim.bypass else tokens.old
    w = (none if aim.bypass else aim.correction)(tokens.old, mu) * mask
    policy, cut = aim.policy(tokens.logp, base, tokens.advantage)
    kl = torch.zeros_like(policy) if tokens.reference is None else aim.anchor(tokens.logp, tokens.reference)
    ratio = (tokens.logp.detach() - base).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    return TokenLosses(policy=w * policy, kl=w * kl, clipped=cut & mask, mask=mask, weight=w, ratio=ratio)
