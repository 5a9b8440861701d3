"""One optimiser step from a batch of samples."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from drivetrain.trainer.advantages import Method, Signals, Weights
from drivetrain.trainer.advantages.hybrid import candidate_advantages
from drivetrain.trainer.learning.figures import Sums, figures, observe, timed
from drivetrain.trainer.learning.views import Policy, Views, items_of
from drivetrain.trainer.losses import Objective, Tokens, token_losses, trainable
from drivetrain.trainer.losses.distill import candidate_loss, reverse_kl
from drivetrain.trainer.model.scoring import Opinion, Wanted
from drivetrain.trainer.samples.samples import Sample
from drivetrain.trainer.tree.packing import packs_of
from drivetrain.trainer.tree.tree import tree_of


@dataclass(frozen=True)
class Recipe:
    """How a batch becomes a gradient. `kl` weighs the anchor (0: none); the teacher is the policy at the batch's start,
    or with `base_teacher` the frozen reference; `top` candidates are compared where the method looks at candidates."""

    method: Method
    weights: Weights
    objective: Objective
    kl: float
    max_grad_norm: float
    micro_batch_tokens: int = 2048
    base_teacher: bool = False
    top: int = 4


@dataclass(frozen=True)
class Step:
    """What a step did. `skipped` says why the weights were left as they were; empty when they changed."""

    metrics: Mapping[str, float]
    skipped: str = ""


class Interrupted(RuntimeError):
    """The step was told to stop; weights and optimiser are as they were."""


@dataclass(frozen=True)
class Known:
    """What is known of a batch before its gradient: by place in the batch, the teacher's opinion, the reference's
    log-probabilities, and advantages that depend on the whole batch; which tokens count."""

    teacher: Mapping[int, Opinion]
    reference: Mapping[int, Tensor]
    masks: Sequence[Tensor]
    advantages: Mapping[int, Tensor] = field(default_factory=dict)


def _never() -> bool:
    return False


class Learner:
    """Turns batches into optimiser steps. Not for use by two threads at once."""

    def __init__(self, policy: Policy, optimizer: torch.optim.Optimizer, recipe: Recipe) -> None:
        self.policy = policy
        self.optimizer = optimizer
        self.recipe = recipe
        self._interrupted: Callable[[], bool] = _never
        self._views = Views(policy, recipe.micro_batch_tokens, recipe.base_teacher, self._go_on)

    def step(self, batch: Sequence[Sample], version: int, interrupted: Callable[[], bool] = _never) -> Step:
        """One step on a batch, under weights of this version. A loss or gradient that is not finite leaves weights
        and optimiser as they were, and is reported as `skipped`.

        Raises:
            Interrupted: `interrupted` said so between two packs.
        """
        self._interrupted = interrupted
        seconds: dict[str, float] = {}
        with timed(seconds, "teacher"):
            teacher = self._teacher(batch)
        with timed(seconds, "reference"):
            known = self._known(batch, teacher)
        with timed(seconds, "policy"):
            sums, loss = self._gradients(batch, known, version)
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

    def _teacher(self, batch: Sequence[Sample]) -> dict[int, Opinion]:
        method, top = self.recipe.method, self.recipe.top
        if not method.uses_teacher:
            return {}
        if method.distil == "reverse_kl":
            return self._views.teachers_favourites(batch, top)
        return self._views.on_favourites(batch, top) if method.distil else self._views.teacher(batch)

    def _known(self, batch: Sequence[Sample], teacher: Mapping[int, Opinion]) -> Known:
        method = self.recipe.method
        reference = self._views.reference(batch) if self.recipe.kl or method.uses_reference else {}
        masks = [trainable(torch.tensor(sample.logprobs), self.recipe.objective) for sample in batch]
        known = Known(teacher, reference, masks)
        if method.across is None:
            return known
        old = self._views.old(batch)
        alone = [self._advantage(sample, old[n], n, known) for n, sample in enumerate(batch)]
        shared = method.across(alone, [mask.to(values.device) for mask, values in zip(masks, alone, strict=True)])
        return Known(teacher, reference, masks, dict(enumerate(shared)))

    def _advantage(self, sample: Sample, old: Tensor, number: int, known: Known) -> Tensor:
        if number in known.advantages:
            return known.advantages[number]
        teacher = known.teacher[number].logprobs if number in known.teacher else None
        signals = Signals(sample.reward, old, teacher, known.reference.get(number))
        return self.recipe.method.rule(signals, self.recipe.weights)

    def _gradients(self, batch: Sequence[Sample], known: Known, version: int) -> tuple[Sums, float]:
        """Gradients of the whole batch's loss, accumulated; what was seen on the way, and the loss."""
        self.optimizer.zero_grad(set_to_none=True)
        sums, loss, scorer, items = Sums(), 0.0, self.policy.scorer, items_of(batch)
        tokens = max(1, sum(int(mask.sum()) for mask in known.masks))
        candidates = {n: opinion.ids for n, opinion in known.teacher.items()} if self.recipe.method.distil else {}
        for pack in packs_of(items, self.recipe.micro_batch_tokens, scorer.branches):
            self._go_on()
            tree = tree_of(pack)
            asked = {number: ids for number, ids in candidates.items() if number in pack}
            scored = scorer(tree, Wanted(entropy=True, candidates=asked))
            whole = sum(len(item.ids) for item in pack.values())
            sums.add(entropy=scored.entropy or 0.0, computed=len(tree), whole=whole)
            terms = [self._loss(batch, n, opinion, known, version, sums) for n, opinion in scored.items.items()]
            replies = len(batch) if self.recipe.objective.per_reply else tokens
            policy, beside = (torch.stack([term[side] for term in terms]).sum() for side in (0, 1))
            part = policy / replies + beside / tokens
            part.backward()  # type: ignore[no-untyped-call]
            loss += part.item()
        return sums, loss

    def _loss(
        self, batch: Sequence[Sample], number: int, opinion: Opinion, known: Known, version: int, sums: Sums
    ) -> tuple[Tensor, Tensor]:
        """One turn's policy loss, and its anchor and distillation, each summed over its tokens."""
        sample, logp = batch[number], opinion.logprobs
        old, mu = logp.detach(), torch.tensor(sample.logprobs, device=logp.device)
        advantage = self._advantage(sample, old, number, known)
        reference = known.reference.get(number) if self.recipe.kl else None
        tokens = Tokens(logp, old, mu, advantage, reference)
        terms = token_losses(tokens, self.recipe.objective)
        observe(sums, sample, tokens, terms, version)
        beside = (self.recipe.kl * terms.kl).sum()
        if self.recipe.method.distil and number in known.teacher:
            distilled = self._distilled(opinion, known.teacher[number]) * terms.mask
            sums.add(distil=float(distilled.detach().sum()))
            beside = beside + distilled.sum()
        return terms.policy.sum(), beside

    def _distilled(self, opinion: Opinion, teacher: Opinion) -> Tensor:
        """The loss over candidates at each position, shape (T,)."""
        if self.recipe.method.distil == "reverse_kl":
            return reverse_kl(opinion.candidates, teacher.candidates)
        old = opinion.candidates.detach()
        return candidate_loss(opinion.candidates, old, candidate_advantages(old, teacher.candidates))

    def _apply(self, loss: float) -> tuple[float, str]:
        norm = float(torch.nn.utils.clip_grad_norm_(self.policy.parameters, self.recipe.max_grad_norm))
        skipped = "" if math.isfinite(loss) and math.isfinite(norm) else f"loss {loss}, gradient norm {norm}"
        if not skipped:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm, skipped
