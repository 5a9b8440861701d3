"""Generalised advantage estimation, `ppo`'s rule (Schulman et al., arXiv 1506.02438)."""

import torch
from torch import Tensor


def gae(rewards: Tensor, values: Tensor, gamma: float, lam: float, bootstrap: float = 0.0) -> tuple[Tensor, Tensor]:
    """Advantages and returns along one path from root to leaf, shapes (T,).

    `A_t = δ_t + γλ A_{t+1}` with `δ_t = r_t + γ V_{t+1} - V_t`; after the last token comes `bootstrap`: 0 where the
    episode ended, the value of the next state where it was truncated.
    """
    after = torch.cat([values[1:], values.new_tensor([bootstrap])])
    delta = rewards + gamma * after - values
    advantages, carried = torch.empty_like(delta), delta.new_zeros(())
    for t in range(len(delta) - 1, -1, -1):
        carried = delta[t] + gamma * lam * carried
        advantages[t] = carried
    return advantages, advantages + values
