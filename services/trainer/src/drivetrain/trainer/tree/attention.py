"""Attention over a token tree, as an attention implementation of transformers by the name `drivetrain_tree`.

On a CPU each block attends to its prefix and itself: no work is done for pairs that do not see each other. On a GPU
FlexAttention does the same with its block mask. Without a tree it is causal attention.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from drivetrain.trainer.tree.masks import block_mask, mask_mod
from drivetrain.trainer.tree.tree import Block, Tree

NAME = "drivetrain_tree"
UNSUPPORTED = ("softcap", "s_aux", "position_bias")


class Layout:
    """A tree's shape on a device, with the masks that its layers share, made when first asked for."""

    def __init__(self, tree: Tree, device: torch.device) -> None:
        self.blocks = tree.blocks
        self._depths = torch.from_numpy(tree.depths).to(device)
        self._ends = torch.from_numpy(tree.ends).to(device)
        self._blocks: dict[tuple[Block, int | None], Tensor | None] = {}
        self._wholes: dict[int | None, BlockMask] = {}

    def block(self, block: Block, window: int | None) -> Tensor | None:
        """See `masks.block_mask`."""
        if (block, window) not in self._blocks:
            self._blocks[block, window] = block_mask(block, self._depths, window)
        return self._blocks[block, window]

    def whole(self, window: int | None) -> BlockMask:
        """FlexAttention's mask of the whole tree."""
        if window not in self._wholes:
            length, rule = len(self._ends), mask_mod(self._ends, self._depths, window)
            self._wholes[window] = create_block_mask(rule, None, None, length, length, str(self._ends.device))
        return self._wholes[window]


def tree_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    tree: Layout | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """What a layer calls: (B, H, L, D) queries, (B, KV, L, D) keys and values → (B, L, H, D).

    Raises:
        ValueError: the layer asks for something that this attention does not do.
    """
    if wanted := [name for name in UNSUPPORTED if options.get(name) is not None]:
        raise ValueError(f"tree attention has no {wanted[0]}")
    query, key = query.to(value.dtype), key.to(value.dtype)
    layout = tree or line(query.shape[2], query.device)
    if query.is_cuda:
        out = _flex()(query, key, value, block_mask=layout.whole(sliding_window), scale=scaling, enable_gqa=True)
    else:
        out = by_block(query, key, value, layout, sliding_window, scaling)
    return out.transpose(1, 2).contiguous(), None


def by_block(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, window: int | None, scaling: float | None
) -> Tensor:
    """Each block against its prefix and itself: (B, H, L, D) → (B, H, L, D)."""
    repeats = query.shape[1] // key.shape[1]
    if repeats > 1:
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    pieces = []
    for block in layout.blocks:
        ranges = (*block.prefix, (block.start, block.end))
        keys, values = (_gathered(tensor, ranges) for tensor in (key, value))
        mask = layout.block(block, window)
        own = query[:, :, block.start : block.end]
        pieces.append(
            scaled_dot_product_attention(own, keys, values, attn_mask=mask, is_causal=mask is None, scale=scaling)
        )
    return torch.cat(pieces, dim=2) if len(pieces) > 1 else pieces[0]


def _gathered(tensor: Tensor, ranges: tuple[tuple[int, int], ...]) -> Tensor:
    if len(ranges) == 1:
        return tensor[:, :, ranges[0][0] : ranges[0][1]]
    return torch.cat([tensor[:, :, start:end] for start, end in ranges], dim=2)


@cache
def _flex() -> Callable[..., Tensor]:
    return torch.compile(flex_attention)


def line(length: int, device: torch.device) -> Layout:
    """A tree without branches."""
    place = np.arange(length)
    return Layout(Tree(place, place, np.full(length, length), (Block(0, length, ()),), ()), device)


AttentionInterface.register(NAME, tree_attention)
