"""Log-probabilities of response tokens under a model, computing the vocabulary only where it is needed."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from drivetrain.trainer.rows import Row


@dataclass(frozen=True)
class Scored:
    """Per item of a micro-batch: log-probabilities of its response tokens, shape (T,), float32, at the item's
    temperature. `entropy` is the sum over all its tokens' distributions in nats, None when not asked for."""

    logprobs: dict[int, Tensor]
    entropy: float | None = None


class Scorer:
    """A causal language model as a function from rows to log-probabilities.

    `model` is a transformers causal LM. Rows are padded on the right: with causal attention no token sees padding.
    """

    def __init__(self, model: nn.Module, autocast: torch.dtype | None = None) -> None:
        self._decoder = model.get_decoder()  # type: ignore[operator]
        self._head = model.get_output_embeddings()  # type: ignore[operator]
        self._device = next(model.parameters()).device
        self._autocast = autocast

    def __call__(self, rows: Sequence[Row], entropy: bool = False) -> Scored:
        """Log-probabilities of every span in the rows; carries gradients unless called under `torch.no_grad`."""
        ids = _padded(rows).to(self._device)
        at = _positions(rows).to(self._device)
        with self._precision():
            hidden = self._decoder(input_ids=ids, use_cache=False).last_hidden_state
            logits = self._head(hidden[at[0], at[1]]).float()
        logits = logits / _temperatures(rows).to(self._device)[:, None]
        total = logits.logsumexp(-1)
        logprobs = logits.gather(-1, ids[at[0], at[1] + 1][:, None])[:, 0] - total
        spans = [span for row in rows for span in row.spans]
        pieces = logprobs.split([span.length for span in spans])
        return Scored(
            {span.item: piece for span, piece in zip(spans, pieces, strict=True)},
            _entropy(logits.detach(), total.detach()) if entropy else None,
        )

    def _precision(self) -> AbstractContextManager[object]:
        if self._autocast is None:
            return nullcontext()
        return torch.autocast(self._device.type, dtype=self._autocast)


def sequence_logprobs(model: nn.Module, ids: Sequence[int]) -> list[float]:
    """log p(token t | tokens < t) for t ≥ 1 at temperature 1, by the model's own full forward pass."""
    device = next(model.parameters()).device
    tokens = torch.tensor([list(ids)], device=device)
    with torch.no_grad():
        logits = model(input_ids=tokens, use_cache=False).logits[0, :-1].float()
    picked = logits.log_softmax(-1).gather(-1, tokens[0, 1:, None])[:, 0]
    return [float(value) for value in picked]


def _padded(rows: Sequence[Row]) -> Tensor:
    longest = max(len(row.ids) for row in rows)
    return torch.tensor([[*row.ids, *[0] * (longest - len(row.ids))] for row in rows])


def _positions(rows: Sequence[Row]) -> Tensor:
    """Shape (2, N): row and column whose output predicts each response token."""
    pairs = [
        (number, column - 1)
        for number, row in enumerate(rows)
        for span in row.spans
        for column in range(span.start, span.start + span.length)
    ]
    return torch.tensor(pairs).T


def _temperatures(rows: Sequence[Row]) -> Tensor:
    return torch.tensor([span.temperature for row in rows for span in row.spans for _ in range(span.length)])


def _entropy(logits: Tensor, total: Tensor) -> float:
    expected = torch.einsum("nv,nv->n", (logits - total[:, None]).exp(), logits)
    return float((total - expected).sum())
