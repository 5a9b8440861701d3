"""One optimiser step from a batch of samples."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from drivetrain.trainer.advantages import Method, Signals, Weights
from drivetrain.trainer.figures import Sums, figures, observe, timed
from drivetrain.trainer.losses import Objective, TokenLosses, Tokens, token_losses
from drivetrain.trainer.packing import packs_of
from drivetrain.trainer.samples import Sample
from drivetrain.trainer.scoring import Scorer, Wanted
from drivetrain.trainer.tree import Item, tree_of


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
    """How a batch becomes a gradient. `kl` weighs the anchor (0: none); the teacher is the policy at the batch's start,
    or with `base_teacher` the frozen reference."""

    method: Method
    weights: Weights
    objective: Objective
    kl: float
    max_grad_norm: float
    micro_batch_tokens: int = 2048
    base_teacher: bool = False


@dataclass(frozen=True)
class Step:
    """What a step did. `skipped` says why the weights were left as they were; empty when they changed."""

    metrics: Mapping[str, float]
    skipped: str = ""


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
        with timed(seconds, "teacher"):
            teacher = self._teacher(batch)
        with timed(seconds, "reference"):
            reference = self._reference(batch)
        with timed(seconds, "policy"):
            sums, loss = self._gradients(batch, teacher, reference, version)
        with timed(seconds, "optimizer"):
            norm, skipped = self._apply(loss)
        metrics = figures(batch, sums, loss, norm) | {f"seconds_{name}": value for name, value in seconds.items()}
        metrics["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        metrics["tokens_per_second"] = sums.values["computed"] / max(1e-9, sum(seconds.values()))
        return Step(metrics, skipped)

    def set_rate(self, rate: float) -> None:
        """Use this learning rate from the next step on."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

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
        if not self.recipe.base_teacher:
            return self._score(self.policy.scorer, hinted)
        with self.policy.reference() as scorer:
            return self._score(scorer, hinted)

    def _reference(self, batch: Sequence[Sample]) -> dict[int, Tensor]:
        if self.recipe.kl == 0:
            return {}
        with self.policy.reference() as scorer:
            return self._score(scorer, _items(batch))

    @torch.no_grad()
    def _score(self, scorer: Scorer, items: Mapping[int, Item]) -> dict[int, Tensor]:
        scores: dict[int, Tensor] = {}
        for pack in packs_of(items, self.recipe.micro_batch_tokens, scorer.branches):
            self._go_on()
            scores |= scorer(tree_of(pack)).logprobs
        return scores

    def _gradients(
        self, batch: Sequence[Sample], teacher: Mapping[int, Tensor], reference: Mapping[int, Tensor], version: int
    ) -> tuple[Sums, float]:
        """Gradients of the whole batch's loss, accumulated; what was seen on the way, and the loss."""
        self.optimizer.zero_grad(set_to_none=True)
        sums, loss = Sums(), 0.0
        trainable = sum(sample.trainable_tokens for sample in batch)
        scorer = self.policy.scorer
        for pack in packs_of(_items(batch), self.recipe.micro_batch_tokens, scorer.branches):
            self._go_on()
            tree = tree_of(pack)
            scored = scorer(tree, Wanted(entropy=True))
            sums.add(entropy=scored.entropy or 0.0, computed=len(tree))
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
        sums: Sums,
    ) -> TokenLosses:
        old = logp.detach()
        advantage = self.recipe.method.rule(Signals(sample.reward, old, teacher), self.recipe.weights)
        mu = torch.tensor(sample.logprobs, device=logp.device)
        tokens = Tokens(logp, old, mu, advantage, reference)
        terms = token_losses(tokens, self.recipe.objective)
        observe(sums, sample, tokens, terms, version)
        return terms

    def _apply(self, loss: float) -> tuple[float, str]:
        norm = float(torch.nn.utils.clip_grad_norm_(self.policy.parameters, self.recipe.max_grad_norm))
        skipped = "" if math.isfinite(loss) and math.isfinite(norm) else f"loss {loss}, gradient norm {norm}"
        if not skipped:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm, skipped


def _items(batch: Sequence[Sample]) -> dict[int, Item]:
    return {n: Item(sample.prompt_ids, sample.response_ids, sample.temperature) for n, sample in enumerate(batch)}
