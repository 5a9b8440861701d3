"""opd_topk and hybrid on a tiny model: the gradient of a step against the rule written out over full vocabularies."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from drivetrain.trainer.advantages import METHODS, Weights
from drivetrain.trainer.learning.learner import Learner, Recipe
from drivetrain.trainer.losses import none, objective
from drivetrain.trainer.model.policy import load_policy
from drivetrain.trainer.samples.samples import Sample

BAD, GOOD, FAR = (3, 10, 99, 30), (3, 10, 21, 30), (3, 200, 150, 7)
BASE = Sample("s", "a", 1, (3, 10, 20, 30), (40, 50, 60), (-1.0,) * 3, (0,) * 3, 0.8, -1.0)


def recipe(method: str, top: int) -> Recipe:
    return Recipe(METHODS[method], Weights(), objective("clip", correct=none), 0.0, 1e9, top=top)


def step_gradient(folder: Path, batch: list[Sample], wanted: Recipe) -> tuple[Tensor, dict[str, float]]:
    policy = load_policy(str(folder), torch.float32, None, anchored=False)
    learner = Learner(policy, torch.optim.AdamW(policy.parameters, lr=1e-9), wanted)
    seen: list[Tensor] = []
    learner.optimizer.step = lambda closure=None: seen.append(  # type: ignore[assignment, method-assign]
        torch.cat([p.grad.flatten().clone() for p in policy.parameters if p.grad is not None])
    )
    metrics = dict(learner.step(batch, version=0).metrics)
    return seen[0], metrics


def plain_gradient(folder: Path, loss_of: Callable[[Callable[..., Tensor]], Tensor]) -> Tensor:
    """Of a loss that is written in terms of `scores(prompt, sample)`: log-probabilities (T, V)."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def scores(prompt: tuple[int, ...], sample: Sample) -> Tensor:
        ids = torch.tensor([prompt + sample.response_ids])
        rows = model(ids).logits[0, len(prompt) - 1 : -1]
        return (rows / sample.temperature).log_softmax(-1)

    loss_of(scores).backward()  # type: ignore[no-untyped-call]
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def close(found: Tensor, wanted: Tensor) -> bool:
    return torch.allclose(found, wanted, atol=1e-5 * float(wanted.abs().max()), rtol=1e-4)


def test_opd_topk_pulls_the_whole_distribution_to_the_teacher(model_folder: Path) -> None:
    hinted = replace(BASE, teacher_ids=GOOD)

    def loss(scores: Callable[..., Tensor]) -> Tensor:
        student, teacher = scores(BASE.prompt_ids, BASE), scores(GOOD, BASE).detach()
        total = torch.zeros(())
        for mine, theirs in zip(student, teacher, strict=True):
            top = theirs.topk(5).indices.tolist()
            rest = [v for v in range(len(mine)) if v not in top]
            total = total + sum(mine[v].exp() * (mine[v] - theirs[v]) for v in top)
            left, others = mine[rest].exp().sum(), theirs[rest].exp().sum()
            total = total + left * (left.log() - others.log())
        return total / 3

    found, metrics = step_gradient(model_folder, [hinted], recipe("opd_topk", 5))
    assert close(found, plain_gradient(model_folder, loss))
    assert metrics["distillation"] > 0


def hybrid_loss(scores: Callable[..., Tensor], hint: tuple[int, ...]) -> Tensor:
    """At ratio 1: -A for each candidate and for the vote, with the gradient through the ratio."""
    student, teacher = scores(BASE.prompt_ids, BASE), scores(hint, BASE).detach()
    total = torch.zeros(())
    for place, (mine, theirs) in enumerate(zip(student, teacher, strict=True)):
        old = mine.detach()
        top = old.topk(4).indices.tolist()
        share = sum(math.exp(old[v]) for v in top)
        for v in top:
            gain = min(max(float(theirs[v] - old[v]), -1.0), 1.0)
            total = total - math.exp(old[v]) / share * gain * (mine[v] - old[v]).exp()
        token = BASE.response_ids[place]
        total = total - BASE.reward * (mine[token] - old[token]).exp()
    return total / 3


@pytest.mark.parametrize("hints", [(GOOD,), (FAR, GOOD), (GOOD, BAD, FAR)])
def test_hybrid_adds_the_closest_teachers_view_of_the_likeliest_tokens(
    model_folder: Path, hints: tuple[tuple[int, ...], ...]
) -> None:
    sample = replace(BASE, teacher_ids=hints[0], other_teachers=hints[1:])
    closest = max(hints, key=lambda hint: common(model_folder, hint))
    found, _ = step_gradient(model_folder, [sample], recipe("hybrid", 4))
    assert close(found, plain_gradient(model_folder, lambda scores: hybrid_loss(scores, closest)))


def common(folder: Path, hint: tuple[int, ...]) -> int:
    """Tokens that the policy and the hinted teacher have among their four likeliest, over all positions."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tops = []
    for prompt in (BASE.prompt_ids, hint):
        with torch.no_grad():
            rows = model(torch.tensor([prompt + BASE.response_ids])).logits[0, len(prompt) - 1 : -1]
        tops.append([set(row.topk(4).indices.tolist()) for row in rows])
    return sum(len(mine & theirs) for mine, theirs in zip(*tops, strict=True))


def test_a_turn_without_a_hint_learns_from_its_vote_alone(model_folder: Path) -> None:
    found, metrics = step_gradient(model_folder, [BASE], recipe("hybrid", 4))
    wanted, _ = step_gradient(model_folder, [BASE], recipe("binary", 4))
    assert torch.equal(found, wanted)
    assert "distillation" not in metrics


def test_turns_with_and_without_hints_share_a_pack(model_folder: Path) -> None:
    hinted = replace(BASE, turn="b", teacher_ids=GOOD, response_ids=(40, 51), logprobs=(-1.0,) * 2, versions=(0,) * 2)
    both, _ = step_gradient(model_folder, [BASE, hinted], recipe("hybrid", 4))
    apart = [step_gradient(model_folder, [one], recipe("hybrid", 4))[0] for one in (BASE, hinted)]
    assert close(both, 0.6 * apart[0] + 0.4 * apart[1])
