"""The anchor to a frozen reference: estimators of a KL divergence from a sampled token's log-probabilities.

With `d = reference - logp`, clamped to ±10, shape (T,). Schulman, "Approximating KL divergence" (2020), names them.
"""

from collections.abc import Callable

import torch
from torch import Tensor

KL_LOG_RATIO_LIMIT = 10.0

Anchor = Callable[[Tensor, Tensor], Tensor]


def _difference(logp: Tensor, reference: Tensor) -> Tensor:
    return (reference - logp).clamp(-KL_LOG_RATIO_LIMIT, KL_LOG_RATIO_LIMIT)


def k1(logp: Tensor, reference: Tensor) -> Tensor:
    """`-d`: the plain log ratio. Its mean over samples of the policy is KL(policy‖reference), but as a loss it pulls
    nowhere on average: it pushes down whatever was sampled."""
    return -_difference(logp, reference)


def k2(logp: Tensor, reference: Tensor) -> Tensor:
    """`d²/2`. As a loss its gradient is that of KL(policy‖reference): the stronger, the less the reference would ever
    say a token."""
    return _difference(logp, reference).square() / 2


def k3(logp: Tensor, reference: Tensor) -> Tensor:
    """`e^d - d - 1`: never negative, 0 where both agree. As a loss its gradient is that of KL(reference‖policy)."""
    d = _difference(logp, reference)
    return torch.exp(d) - d - 1


ANCHORS: dict[str, Anchor] = {"k1": k1, "k2": k2, "k3": k3}
