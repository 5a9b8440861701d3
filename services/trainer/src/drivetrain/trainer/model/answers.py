"""From hidden states to log-probabilities, in chunks, so that a large vocabulary never exists for a whole pack."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

LOGITS_AT_ONCE = 2**27
"""Logits that exist at the same time (half a gigabyte in float32); beyond it they are made anew for the gradient."""


class Questions(NamedTuple):
    """What is asked of N outputs: their targets (N,), temperatures (N,), and candidate tokens (N, K), K ≥ 0."""

    targets: Tensor
    temperatures: Tensor
    candidates: Tensor


class Answers(NamedTuple):
    """Log-probabilities of the targets (N,) and of the candidates (N, K), which are `ids` (N, K); entropies (N,), not
    differentiable. All float32, in nats."""

    logprobs: Tensor
    ids: Tensor
    candidates: Tensor
    entropy: Tensor


def vocabulary(head: nn.Module) -> int:
    """How many tokens an output layer tells apart."""
    weight = head.weight
    assert isinstance(weight, Tensor)
    return len(weight)


def answers(head: nn.Module, hidden: Tensor, asked: Questions, top: int, entropy: bool) -> Answers:
    """Apply the output layer to N hidden states (N, D). With `top` the candidates are the likeliest tokens instead."""
    rows = max(1, LOGITS_AT_ONCE // vocabulary(head))
    if len(hidden) <= rows:
        return _answers(head, hidden, *asked, top, entropy)
    parts = [
        Answers(*checkpoint(_answers, head, *chunk, top, entropy, use_reentrant=False))
        for chunk in zip(*(torch.split(tensor, rows) for tensor in (hidden, *asked)), strict=True)
    ]
    return Answers(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _answers(
    head: nn.Module,
    hidden: Tensor,
    targets: Tensor,
    temperatures: Tensor,
    candidates: Tensor,
    top: int,
    entropy: bool,
) -> Answers:
    logits = head(hidden).float() / temperatures[:, None]
    total = logits.logsumexp(-1)
    ids = logits.detach().topk(top, dim=-1).indices if top else candidates
    spread = _entropy(logits.detach(), total.detach()) if entropy else total.new_zeros(len(total))
    logprobs = logits.gather(-1, targets[:, None])[:, 0] - total
    return Answers(logprobs, ids, logits.gather(-1, ids) - total[:, None], spread)


def _entropy(logits: Tensor, total: Tensor) -> Tensor:
    return total - torch.einsum("nv,nv->n", (logits - total[:, None]).exp(), logits)
