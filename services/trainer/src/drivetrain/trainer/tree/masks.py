"""Who sees whom in a tree: a token sees itself and its ancestors, with a sliding window only the nearest of them."""

from collections.abc import Callable

import torch
from torch import Tensor

from drivetrain.trainer.tree.tree import Block, Tree

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def mask_mod(ends: Tensor, depths: Tensor, window: int | None = None) -> MaskMod:
    """The rule as FlexAttention asks for it, from a tree's `ends` and `depths`, shape (L,)."""

    def sees(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        seen = (key <= query) & (query < ends[key])
        return seen if window is None else seen & (depths[query] - depths[key] < window)

    return sees


def explicit(tree: Tree, window: int | None = None) -> Tensor:
    """The rule as a table, shape (L, L): row q, column k."""
    place, zero = torch.arange(len(tree)), torch.zeros((), dtype=torch.long)
    sees = mask_mod(torch.from_numpy(tree.ends), torch.from_numpy(tree.depths), window)
    return sees(zero, zero, place[:, None], place[None, :])


def block_mask(block: Block, depths: Tensor, window: int | None = None) -> Tensor | None:
    """The rule for one block against its prefix and itself, shape (block, prefix + block): along one path it is a
    matter of depth. None where plain causal attention says the same."""
    if not block.prefix and window is None:
        return None
    own = depths[block.start : block.end]
    keys = torch.cat([depths[start:end] for start, end in (*block.prefix, (block.start, block.end))])
    apart = own[:, None] - keys[None, :]
    return apart >= 0 if window is None else (apart >= 0) & (apart < window)
