"""The weight for what the engine sampled with: covers the gap between engine and trainer, and staleness.

A correction is a function from π_old and μ, log-probabilities of shape (T,), to detached weights of shape (T,).
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from drivetrain.trainer.losses.tokens import LOG_RATIO_LIMIT

Correction = Callable[[Tensor, Tensor], Tensor]


def _ratio(old: Tensor, mu: Tensor) -> Tensor:
    return torch.exp((old - mu).detach().clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))


def none(old: Tensor, mu: Tensor) -> Tensor:
    """Weight 1, as if the trainer itself had sampled."""
    return torch.ones_like(old)


def tis(old: Tensor, mu: Tensor, cap: float = 2.0) -> Tensor:
    """Truncated importance sampling: min(π_old/μ, cap)."""
    return _ratio(old, mu).clamp(max=cap)


def mis(old: Tensor, mu: Tensor, cap: float = 2.0, level: Literal["token", "sequence"] = "token") -> Tensor:
    """Masked importance sampling: π_old/μ where it is at most `cap`, else 0; at level `sequence` the ratio of the whole
    reply, the product over its tokens, is every token's."""
    ratio = _ratio(old, mu)
    if level == "sequence":
        ratio = _ratio(old.sum(), mu.sum()).expand_as(old)
    return torch.where(ratio <= cap, ratio, 0.0)


def icepop(old: Tensor, mu: Tensor, low: float = 0.5, high: float = 5.0) -> Tensor:
    """π_old/μ where it lies within [low, high], else 0."""
    ratio = _ratio(old, mu)
    return torch.where((ratio >= low) & (ratio <= high), ratio, 0.0)


CORRECTIONS: dict[str, Callable[..., Tensor]] = {"tis": tis, "mis": mis, "icepop": icepop, "none": none}


def correction(name: str, **options: float | str) -> Correction:
    """The correction of that name with its options set."""
    return partial(CORRECTIONS[name], **options)
