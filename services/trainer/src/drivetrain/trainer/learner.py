"""One optimiser step from a batch of samples."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from drivetrain.trainer.advantages import Method, Signals, Weights
from drivetrain.trainer.losses import Clip, Correction, TokenLosses, Tokens, k3, token_losses
from drivetrain.trainer.rows import Item, micro_batches, rows_of
from drivetrain.trainer.samples import Sample
from drivetrain.trainer.scoring import Scorer


class Policy(Protocol):
    """The model in training, and the frozen reference that anchors it."""

    @property
    def scorer(self) -> Scorer: ...
    @property
    def parameters(self) -> Sequence[Tensor]: ...

    def reference(self) -> AbstractContextManager[Scorer]:
        """The reference's scorer, to be called without gradients inside the context."""


@dataclass(frozen=True)
class Recipe:
    """How a batch becomes a gradient. `cap` bounds the correction; `kl` weighs the anchor (0: none)."""

    method: Method
    weights: Weights
    clip: Clip
    correction: Correction
    cap: float
    kl: float
    max_grad_norm: float
    micro_batch_tokens: int = 2048


@dataclass(frozen=True)
class Step:
    """What a step did. `skipped` says why the weights were left as they were; empty when they changed."""

    metrics: Mapping[str, float]
    skipped: str = ""


@dataclass
class _Sums:
    """Running totals over a batch's response tokens."""

    tokens: int = 0
    values: dict[str, float] = field(default_factory=dict)

    def add(self, **values: float) -> None:
        for name, value in values.items():
            self.values[name] = self.values.get(name, 0.0) + value

    def mean(self, name: str, count: int | None = None) -> float:
        return self.values.get(name, 0.0) / max(1, self.tokens if count is None else count)


class Interrupted(RuntimeError):
    """The step was told to stop; weights and optimiser are as they were."""


def _never() -> bool:
    return False


class Learner:
    """Turns batches into optimiser steps. Not for use by two threads at once."""

    def __init__(self, policy: Policy, optimizer: torch.optim.Optimizer, recipe: Recipe) -> None:
        self.policy = policy
        self.optimizer = optimizer
        self.recipe = recipe
        self._interrupted: Callable[[], bool] = _never

    def step(self, batch: Sequence[Sample], version: int, interrupted: Callable[[], bool] = _never) -> Step:
        """One step on a batch, under weights of this version. A loss or gradient that is not finite leaves weights
        and optimiser as they were, and is reported as `skipped`.

        Raises:
            Interrupted: `interrupted` said so between two micro-batches.
        """
        self._interrupted = interrupted
        seconds: dict[str, float] = {}
        with _timed(seconds, "teacher"):
            teacher = self._teacher(batch)
        with _timed(seconds, "reference"):
            reference = self._reference(batch)
        with _timed(seconds, "policy"):
            sums, loss = self._gradients(batch, teacher, reference, version)
        with _timed(seconds, "optimizer"):
            norm, skipped = self._apply(loss)
        metrics = _metrics(batch, sums, loss, norm) | {f"seconds_{name}": value for name, value in seconds.items()}
        metrics["tokens_per_second"] = sums.values["computed"] / max(1e-9, sum(seconds.values()))
        return Step(metrics, skipped)

    def _go_on(self) -> None:
        if self._interrupted():
            self.optimizer.zero_grad(set_to_none=True)
            raise Interrupted("the training step was interrupted")

    def _teacher(self, batch: Sequence[Sample]) -> dict[int, Tensor]:
        if not self.recipe.method.uses_teacher:
            return {}
        hinted = {
            number: Item(sample.teacher_ids, sample.response_ids, sample.temperature)
            for number, sample in enumerate(batch)
            if sample.teacher_ids is not None
        }
        return self._score(self.policy.scorer, hinted)

    def _reference(self, batch: Sequence[Sample]) -> dict[int, Tensor]:
        if self.recipe.kl == 0:
            return {}
        with self.policy.reference() as scorer:
            return self._score(scorer, dict(enumerate(_items(batch))))

    @torch.no_grad()
    def _score(self, scorer: Scorer, items: Mapping[int, Item]) -> dict[int, Tensor]:
        numbers, scores = list(items), {}
        for rows in micro_batches(rows_of(list(items.values())), self.recipe.micro_batch_tokens):
            self._go_on()
            scores.update({numbers[i]: logprobs for i, logprobs in scorer(rows).logprobs.items()})
        return scores

    def _gradients(
        self, batch: Sequence[Sample], teacher: Mapping[int, Tensor], reference: Mapping[int, Tensor], version: int
    ) -> tuple[_Sums, float]:
        """Gradients of the whole batch's loss, accumulated; what was seen on the way, and the loss."""
        self.optimizer.zero_grad(set_to_none=True)
        sums, loss = _Sums(), 0.0
        trainable = sum(sample.trainable_tokens for sample in batch)
        for rows in micro_batches(rows_of(_items(batch)), self.recipe.micro_batch_tokens):
            self._go_on()
            scored = self.policy.scorer(rows, entropy=True)
            sums.add(entropy=scored.entropy or 0.0, computed=sum(len(row.ids) for row in rows))
            terms = [
                self._terms(batch[i], logp, teacher.get(i), reference.get(i), version, sums)
                for i, logp in scored.logprobs.items()
            ]
            part = torch.stack([(t.policy + self.recipe.kl * t.kl).sum() for t in terms]).sum() / trainable
            part.backward()  # type: ignore[no-untyped-call]
            loss += part.item()
        return sums, loss

    def _terms(
        self,
        sample: Sample,
        logp: Tensor,
        teacher: Tensor | None,
        reference: Tensor | None,
        version: int,
        sums: _Sums,
    ) -> TokenLosses:
        old = logp.detach()
        advantage = self.recipe.method.rule(Signals(sample.reward, old, teacher), self.recipe.weights)
        mu = torch.tensor(sample.logprobs, device=logp.device)
        tokens = Tokens(logp, old, mu, advantage, reference)
        terms = token_losses(tokens, self.recipe.clip, self.recipe.correction, self.recipe.cap)
        _observe(sums, sample, tokens, terms, version)
        return terms

    def _apply(self, loss: float) -> tuple[float, str]:
        norm = float(torch.nn.utils.clip_grad_norm_(self.policy.parameters, self.recipe.max_grad_norm))
        skipped = "" if math.isfinite(loss) and math.isfinite(norm) else f"loss {loss}, gradient norm {norm}"
        if not skipped:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm, skipped


def _items(batch: Sequence[Sample]) -> list[Item]:
    return [Item(sample.prompt_ids, sample.response_ids, sample.temperature) for sample in batch]


def _observe(sums: _Sums, sample: Sample, tokens: Tokens, terms: TokenLosses, version: int) -> None:
    mask, advantage = terms.mask, tokens.advantage[terms.mask]
    sums.tokens += int(mask.sum())
    sums.add(advantage=float(advantage.sum()), advantage_square=float((advantage**2).sum()))
    sums.add(clipped=float(terms.clipped.sum()))
    if tokens.reference is not None:
        sums.add(kl=float(k3(tokens.old, tokens.reference)[mask].sum()))
    own = mask & (torch.tensor(sample.versions, device=mask.device) == version)
    gap = (tokens.old - tokens.mu)[own]
    sums.add(gap_tokens=float(own.sum()), gap=float(gap.abs().sum()), gap_kl=float((gap.exp() - gap - 1).sum()))


def _metrics(batch: Sequence[Sample], sums: _Sums, loss: float, norm: float) -> dict[str, float]:
    mean = sums.mean("advantage")
    metrics = {
        "loss": loss,
        "grad_norm": norm,
        "turns": float(len(batch)),
        "tokens": float(sums.tokens),
        "reward_mean": sum(sample.reward for sample in batch) / len(batch),
        "teacher_share": sum(sample.teacher_ids is not None for sample in batch) / len(batch),
        "advantage_mean": mean,
        "advantage_std": math.sqrt(max(0.0, sums.mean("advantage_square") - mean**2)),
        "kl_reference": sums.mean("kl"),
        "entropy": sums.values["entropy"] / sum(len(sample.response_ids) for sample in batch),
        "clip_fraction": sums.mean("clipped"),
        "response_tokens_mean": sum(len(sample.response_ids) for sample in batch) / len(batch),
    }
    if counted := int(sums.values["gap_tokens"]):
        metrics["engine_gap"] = sums.mean("gap", counted)
        metrics["engine_kl"] = sums.mean("gap_kl", counted)
    return metrics


class _timed:  # noqa: N801  (reads as a verb at its call sites)
    """Adds the seconds that its block took to `into[name]`."""

    def __init__(self, into: dict[str, float], name: str) -> None:
        self._into, self._name = into, name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self._into[self._name] = time.perf_counter() - self._start
