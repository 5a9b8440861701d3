"""Weights of the small model's shape, and what steps of AdamW at realistic learning rates make of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """A decoder like the small model's: tied embedding, grouped-query attention, gated feed-forward."""

    layers: int = 30
    width: int = 576
    feed_forward: int = 1536
    keys: int = 192
    vocabulary: int = 49_152

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes, as a checkpoint has them."""
        yield "model.embed_tokens.weight", (self.vocabulary, self.width)
        wide, narrow, deep = (self.width, self.width), (self.keys, self.width), (self.feed_forward, self.width)
        for layer in range(self.layers):
            at = f"model.layers.{layer}"
            yield f"{at}.input_layernorm.weight", (self.width,)
            yield f"{at}.post_attention_layernorm.weight", (self.width,)
            parts = {"self_attn.q_proj": wide, "self_attn.k_proj": narrow, "self_attn.v_proj": narrow}
            parts |= {"self_attn.o_proj": wide, "mlp.gate_proj": deep, "mlp.up_proj": deep}
            for name, shape in parts.items():
                yield f"{at}.{name}.weight", shape
            yield f"{at}.mlp.down_proj.weight", (self.width, self.feed_forward)
        yield "model.norm.weight", (self.width,)


Weights = dict[str, Tensor]


def initial(shape: Shape, seed: int = 0) -> Weights:
    """Random weights: normal with a deviation of 0.04, about that of the small model's; norms around one. float32."""
    chance = torch.Generator().manual_seed(seed)
    drawn = {name: torch.randn(size, generator=chance) for name, size in shape.tensors()}
    return {name: 0.04 * value if value.ndim == 2 else 1 + 0.1 * value for name, value in drawn.items()}


def neighbours(weights: Weights, learning_rate: float, warmup: int = 3, seed: int = 1) -> tuple[Weights, Weights]:
    """Two versions one optimiser step apart, after some steps that fill the optimiser's averages.

    The gradients are noise: what AdamW does with one is a step of about the learning rate, whatever its size.
    """
    parameters = {name: torch.nn.Parameter(value.clone()) for name, value in weights.items()}
    optimizer = torch.optim.AdamW(parameters.values(), lr=learning_rate, weight_decay=0.0, fused=True)
    chance = torch.Generator().manual_seed(seed)
    for _ in range(warmup):
        _step(parameters, optimizer, chance)
    before = _copy(parameters)
    _step(parameters, optimizer, chance)
    return before, _copy(parameters)


def _step(parameters: dict[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer, chance: torch.Generator) -> None:
    for parameter in parameters.values():
        parameter.grad = torch.randn(parameter.shape, generator=chance)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _copy(parameters: dict[str, torch.nn.Parameter]) -> Weights:
    return {name: parameter.detach().clone() for name, parameter in parameters.items()}
