"""A causal language model as a function from token trees to log-probabilities of the responses in them."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from drivetrain.trainer.model.answers import Questions, answers
from drivetrain.trainer.tree.attention import NAME, Layout
from drivetrain.trainer.tree.tree import Tree

GPU_BLOCK = 128
"""FlexAttention's block: a length that is a multiple of it is compiled once."""


@dataclass(frozen=True)
class Opinion:
    """A model's log-probabilities at one item's T response positions, float32, at the item's temperature: of the
    response, shape (T,), and of the candidate tokens `ids`, both of shape (T, K)."""

    logprobs: Tensor
    ids: Tensor
    candidates: Tensor


@dataclass(frozen=True)
class Scored:
    """Opinions by item. `entropy` is the sum over all their positions' distributions in nats, None if not asked for."""

    items: dict[int, Opinion]
    entropy: float | None = None

    @property
    def logprobs(self) -> dict[int, Tensor]:
        """Of the responses, by item."""
        return {number: opinion.logprobs for number, opinion in self.items.items()}


@dataclass(frozen=True)
class Wanted:
    """What to say beside the responses' log-probabilities: entropy; as candidates the `top` likeliest tokens, or those
    given by item, shape (T, K) (an item that is not in there gets token 0)."""

    entropy: bool = False
    top: int = 0
    candidates: Mapping[int, Tensor] | None = None


class Scorer:
    """`model` is a transformers causal LM."""

    def __init__(self, model: nn.Module, autocast: torch.dtype | None = None) -> None:
        self._decoder = model.get_decoder()  # type: ignore[operator]
        self._head = model.get_output_embeddings()  # type: ignore[operator]
        self._config: Any = model.config
        self._device = next(model.parameters()).device
        self._autocast = autocast

    @property
    def branches(self) -> bool:
        """Whether the model reads trees; else every tree must be a single line."""
        return bool(self._config._attn_implementation == NAME)

    def __call__(self, tree: Tree, wanted: Wanted = Wanted()) -> Scored:
        """Opinions on every response in the tree; they carry gradients unless called under `torch.no_grad`."""
        at = np.concatenate([response.at for response in tree.responses])
        asked = Questions(*(tensor.to(self._device) for tensor in _questions(tree, wanted.candidates or {})))
        with self._precision():
            hidden = self._hidden(tree)[torch.from_numpy(at).to(self._device)]
            found = answers(self._head, hidden, asked, wanted.top, wanted.entropy)
        lengths = [len(response.targets) for response in tree.responses]
        pieces = zip(*(torch.split(tensor, lengths) for tensor in found[:3]), strict=True)
        opinions = {r.item: Opinion(*piece) for r, piece in zip(tree.responses, pieces, strict=True)}
        return Scored(opinions, float(found.entropy.sum()) if wanted.entropy else None)

    def _hidden(self, tree: Tree) -> Tensor:
        """The decoder's outputs, shape (L, D)."""
        padding = -len(tree) % GPU_BLOCK if self._device.type == "cuda" else 0
        whole = tree.padded(padding) if padding else tree
        ids = torch.from_numpy(whole.ids).to(self._device)[None]
        shape: dict[str, Any] = {}
        if self.branches:
            depths = torch.from_numpy(whole.depths).to(self._device)[None]
            shape = {"position_ids": depths, "tree": Layout(whole, self._device)}
        hidden: Tensor = self._decoder(input_ids=ids, use_cache=False, **shape).last_hidden_state
        return hidden[0]

    def _precision(self) -> AbstractContextManager[object]:
        if self._autocast is None:
            return nullcontext()
        return torch.autocast(self._device.type, dtype=self._autocast)


def _questions(tree: Tree, candidates: Mapping[int, Tensor]) -> Questions:
    width = next((ids.shape[1] for ids in candidates.values()), 0)
    responses = tree.responses
    return Questions(
        torch.tensor([token for response in responses for token in response.targets]),
        torch.tensor([response.temperature for response in responses for _ in response.targets]),
        torch.cat(
            [candidates.get(r.item, torch.zeros(len(r.targets), width, dtype=torch.long)).cpu() for r in responses]
        ),
    )


def sequence_logprobs(model: nn.Module, ids: Sequence[int]) -> list[float]:
    """log p(token t | tokens < t) for t ≥ 1 at temperature 1, by the model's own full forward pass."""
    device = next(model.parameters()).device
    tokens = torch.tensor([list(ids)], device=device)
    with torch.no_grad():
        logits = model(input_ids=tokens, use_cache=False).logits[0, :-1].float()
    picked = logits.log_softmax(-1).gather(-1, tokens[0, 1:, None])[:, 0]
    return [float(value) for value in picked]
