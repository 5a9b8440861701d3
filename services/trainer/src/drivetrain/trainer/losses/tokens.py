"""What a loss is computed from, and what comes of it: all per response token of one turn."""

from dataclasses import dataclass

from torch import Tensor

LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True)
class Tokens:
    """One turn's T response tokens, shape (T,), log-probabilities in nats; `logp` alone carries a gradient. `mu` is NaN
    where the engine gave no logprob. `reference` is None without an anchor."""

    logp: Tensor
    old: Tensor
    mu: Tensor
    advantage: Tensor
    reference: Tensor | None = None


@dataclass(frozen=True)
class TokenLosses:
    """Per-token terms of one turn, shape (T,), already masked and corrected. `clipped` marks tokens whose gradient was
    cut, `weight` is the correction (0 where masked), `ratio` is π_θ over the policy it is compared with."""

    policy: Tensor
    kl: Tensor
    clipped: Tensor
    mask: Tensor
    weight: Tensor
    ratio: Tensor
