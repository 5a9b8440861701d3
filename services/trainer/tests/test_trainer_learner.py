"""The learner on a tiny real model: the right log-probabilities, the right direction, nothing done to a bad batch."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from drivetrain.trainer.advantages import METHODS, Weights
from drivetrain.trainer.learning.learner import Interrupted, Learner, Recipe
from drivetrain.trainer.losses import objective
from drivetrain.trainer.model.policy import BadModel, CausalPolicy, Lora, load_policy, load_tokenizer
from drivetrain.trainer.model.scoring import Wanted
from drivetrain.trainer.samples.samples import Sample
from drivetrain.trainer.tree.packing import packs_of
from drivetrain.trainer.tree.tree import Item, tree_of

RECIPE = Recipe(
    method=METHODS["combine"],
    weights=Weights(),
    objective=objective("clip"),
    kl=0.01,
    max_grad_norm=1e9,
)


def policy_of(folder: Path, lora: Lora | None = None) -> CausalPolicy:
    return load_policy(str(folder), torch.float32, lora, anchored=True)


def logprobs(folder: Path, item: Item) -> list[float]:
    """By the plain model, one sequence at a time: the independent reference."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.tensor([item.prompt_ids + item.response_ids])
    with torch.no_grad():
        scores = (model(ids).logits[0].float() / item.temperature).log_softmax(-1)
    start = len(item.prompt_ids)
    return [float(scores[start + i - 1, token]) for i, token in enumerate(item.response_ids)]


def sample(folder: Path, number: int = 0, reward: float = 1.0, **changes: Any) -> Sample:
    prompt, response = (3, 10 + number, 20, 30), (40, 50 + number, 60)
    mu = logprobs(folder, Item(prompt, response))
    made = Sample("s", f"t{number}", number, prompt, response, tuple(mu), (0, 0, 0), 1.0, reward)
    return replace(made, **changes)


def learner_of(policy: CausalPolicy, recipe: Recipe = RECIPE, lr: float = 1e-3) -> Learner:
    return Learner(policy, torch.optim.AdamW(policy.parameters, lr=lr, weight_decay=0.0), recipe)


def gradients(policy: CausalPolicy, recipe: Recipe, batch: list[Sample]) -> torch.Tensor:
    """All gradients of one step as a vector, seen just before the optimiser would use them."""
    learner = learner_of(policy, recipe)
    seen: list[torch.Tensor] = []
    learner.optimizer.step = lambda closure=None: seen.append(  # type: ignore[assignment, method-assign]
        torch.cat([p.grad.flatten().clone() for p in policy.parameters if p.grad is not None])
    )
    learner.step(batch, version=0)
    return seen[0]


def test_a_base_teacher_says_the_same_after_the_policy_has_moved(model_folder: Path) -> None:
    hinted = replace(sample(model_folder, reward=0.0), teacher_ids=(3, 10, 20, 99, 98, 97, 30))
    base = logprobs(model_folder, Item(hinted.teacher_ids or (), hinted.response_ids))
    policy = policy_of(model_folder)
    learner = learner_of(policy, replace(RECIPE, method=METHODS["opd"], base_teacher=True), lr=1e-2)
    learner.step([hinted], version=0)
    with torch.no_grad():
        now = policy.scorer(tree_of({0: Item(hinted.prompt_ids, hinted.response_ids)})).logprobs[0].tolist()
    assert now != pytest.approx(list(hinted.logprobs), abs=0.05)
    expected = sum(b - n for b, n in zip(base, now, strict=True)) / 3
    assert learner.step([hinted], version=1).metrics["advantage_mean"] == pytest.approx(expected, abs=1e-3)


def test_packed_logprobs_equal_the_plain_models(model_folder: Path) -> None:
    first = Item((3, 4, 5), (6, 7), temperature=0.7)
    second = Item((3, 4, 5, 6, 7, 8), (9,), temperature=1.0)
    lone = Item((11,), (12, 13, 14, 15, 16, 17, 18), temperature=2.0)
    policy = policy_of(model_folder)
    found: dict[int, list[float]] = {}
    for pack in packs_of({0: first, 1: second, 2: lone}, budget=14):
        with torch.no_grad():
            found |= {i: values.tolist() for i, values in policy.scorer(tree_of(pack)).logprobs.items()}
    for number, item in enumerate((first, second, lone)):
        assert found[number] == pytest.approx(logprobs(model_folder, item), abs=1e-4)


def test_entropy_is_that_of_the_distributions(model_folder: Path) -> None:
    policy = policy_of(model_folder)
    scored = policy.scorer(tree_of({0: Item((3, 4), (5,))}), Wanted(entropy=True))
    with torch.no_grad():
        spread = policy.causal(torch.tensor([[3, 4]])).logits[0, -1].float().softmax(-1)
    assert scored.entropy == pytest.approx(float(-(spread * spread.log()).sum()), rel=1e-4)


@pytest.mark.parametrize("reward", [1.0, -1.0])
@pytest.mark.parametrize("lora", [None, Lora(4, 8.0)])
def test_a_step_moves_the_replies_the_way_the_vote_says(model_folder: Path, reward: float, lora: Lora | None) -> None:
    policy = policy_of(model_folder, lora)
    batch = [sample(model_folder, n, reward) for n in range(3)]
    learner = learner_of(policy)
    for _ in range(3):
        learner.step(batch, version=0)
    tree = tree_of({n: Item(s.prompt_ids, s.response_ids) for n, s in enumerate(batch)})
    after = sum(float(v.detach().sum()) for v in policy.scorer(tree).logprobs.values())
    before = sum(sum(s.logprobs) for s in batch)
    assert (after - before) * reward > 0


def test_a_step_towards_the_teacher_makes_its_favourites_likelier(model_folder: Path) -> None:
    hinted = replace(sample(model_folder, reward=0.0), teacher_ids=(3, 10, 20, 99, 98, 97, 30))
    policy = policy_of(model_folder)
    teacher = logprobs(model_folder, Item(hinted.teacher_ids or (), hinted.response_ids))
    recipe = replace(RECIPE, method=METHODS["opd"], kl=0.0)
    step = learner_of(policy, recipe).step([hinted], version=0)
    expected = [t - o for t, o in zip(teacher, hinted.logprobs, strict=True)]
    assert step.metrics["advantage_mean"] == pytest.approx(sum(expected) / 3, abs=1e-4)
    after = policy.scorer(tree_of({0: Item(hinted.prompt_ids, hinted.response_ids)})).logprobs[0].tolist()
    moved = sum(a * (n - o) for a, n, o in zip(expected, after, hinted.logprobs, strict=True))
    assert moved > 0


@pytest.mark.parametrize("budget", [1, 8, 14, 4096])
def test_how_a_batch_is_split_changes_no_gradient(model_folder: Path, budget: int) -> None:
    long = sample(model_folder, 1, -1.0, response_ids=(40, 51, 60, 61, 62), logprobs=(-1.0,) * 5, versions=(0,) * 5)
    batch = [sample(model_folder, 0), long, sample(model_folder, 2, teacher_ids=(3, 12, 20, 7, 30))]
    whole = gradients(policy_of(model_folder), RECIPE, batch)
    split = gradients(policy_of(model_folder), replace(RECIPE, micro_batch_tokens=budget), batch)
    assert torch.allclose(whole, split, atol=1e-5, rtol=1e-4)


def test_turns_of_a_conversation_give_the_same_gradient_together_and_apart(model_folder: Path) -> None:
    first = sample(model_folder, 0)
    prompt = first.prompt_ids + first.response_ids + (5,)
    second = sample(model_folder, 1, -1.0, prompt_ids=prompt, logprobs=(-2.0, -2.0, -2.0))
    together = gradients(policy_of(model_folder), RECIPE, [first, second])
    apart = [gradients(policy_of(model_folder), RECIPE, [s]) for s in (first, second)]
    assert torch.allclose(together, (apart[0] + apart[1]) / 2, atol=1e-5, rtol=1e-4)


def test_normalisation_is_per_token_of_the_batch(model_folder: Path) -> None:
    """One reply of 3 tokens and one of 1: the longer one weighs three times as much."""
    long = sample(model_folder, 0)
    short = sample(model_folder, 1, response_ids=(40,), logprobs=long.logprobs[:1], versions=(0,))
    both = gradients(policy_of(model_folder), RECIPE, [long, short])
    apart = [gradients(policy_of(model_folder), RECIPE, [s]) for s in (long, short)]
    assert torch.allclose(both, 0.75 * apart[0] + 0.25 * apart[1], atol=1e-5, rtol=1e-4)


def test_the_anchor_pulls_back_once_the_policy_has_moved(model_folder: Path) -> None:
    policy = policy_of(model_folder)
    learner = learner_of(policy, replace(RECIPE, kl=0.0), lr=1e-2)
    batch = [sample(model_folder)]
    learner.step(batch, version=0)
    drifted = learner_of(policy, replace(RECIPE, kl=0.5)).step(batch, version=1).metrics["kl_reference"]
    assert drifted > 0
    still = learner_of(policy_of(model_folder)).step(batch, version=0).metrics["kl_reference"]
    assert still == pytest.approx(0.0, abs=1e-5)


def test_the_lora_reference_is_the_model_without_its_adapter(model_folder: Path) -> None:
    policy = policy_of(model_folder, Lora(4, 8.0))
    batch = [sample(model_folder)]
    learner = learner_of(policy, lr=1e-2)
    learner.step(batch, version=0)
    assert learner.step(batch, version=1).metrics["kl_reference"] > 0
    with policy.reference() as reference, torch.no_grad():
        base = reference(tree_of({0: Item(batch[0].prompt_ids, batch[0].response_ids)})).logprobs[0].tolist()
    assert base == pytest.approx(batch[0].logprobs, abs=1e-4)


def test_the_engine_gap_counts_only_tokens_of_the_batch_start_version(model_folder: Path) -> None:
    own = sample(model_folder, 0)
    mu = tuple(value - 0.1 for value in own.logprobs)
    batch = [replace(own, logprobs=mu, versions=(4, 4, 4)), sample(model_folder, 1, logprobs=(-9.0,) * 3)]
    metrics = learner_of(policy_of(model_folder)).step(batch, version=4).metrics
    assert metrics["engine_gap"] == pytest.approx(0.1, abs=1e-3)
    assert metrics["engine_kl"] == pytest.approx(math.exp(0.1) - 1.1, abs=1e-3)
    assert "engine_gap" not in learner_of(policy_of(model_folder)).step(batch, version=9).metrics


def test_a_batch_that_is_not_finite_leaves_the_weights_alone(model_folder: Path) -> None:
    policy = policy_of(model_folder)
    before = {name: value.clone() for name, value in policy.trainable().items()}
    step = learner_of(policy).step([sample(model_folder, reward=math.inf)], version=0)
    assert "loss" in step.skipped
    assert all(torch.equal(before[name], value) for name, value in policy.trainable().items())


def test_an_interrupted_step_leaves_the_weights_alone(model_folder: Path) -> None:
    policy = policy_of(model_folder)
    before = {name: value.clone() for name, value in policy.trainable().items()}
    with pytest.raises(Interrupted):
        learner_of(policy).step([sample(model_folder)], version=0, interrupted=lambda: True)
    assert all(torch.equal(before[name], value) for name, value in policy.trainable().items())
    assert all(p.grad is None for p in policy.parameters)


def test_metrics_tell_about_the_batch(model_folder: Path) -> None:
    batch = [sample(model_folder, 0, 1.0), sample(model_folder, 1, -1.0), sample(model_folder, 2, -1.0)]
    metrics = learner_of(policy_of(model_folder)).step(batch, version=0).metrics
    assert metrics["reward_mean"] == pytest.approx(-1 / 3)
    assert metrics["advantage_std"] == pytest.approx(math.sqrt(1 - 1 / 9), rel=1e-3)
    assert (metrics["turns"], metrics["tokens"], metrics["response_tokens_mean"]) == (3, 9, 3)
    assert metrics["clip_fraction"] == 0


def test_merged_weights_are_those_of_the_adapted_model(model_folder: Path, tmp_path: Path) -> None:
    policy = policy_of(model_folder, Lora(4, 8.0))
    learner_of(policy, lr=1e-2).step([sample(model_folder)], version=0)
    plain = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    plain.load_state_dict(policy.full_weights(), strict=False)
    ids = torch.tensor([[3, 4, 5, 6]])
    with torch.no_grad():
        assert torch.allclose(plain(ids).logits, policy.causal(ids).logits, atol=1e-4)


@pytest.mark.parametrize("missing", ["tokenizer.json", "chat_template.jinja"])
def test_a_folder_without_tokenizer_or_template_says_what_to_add(
    model_folder: Path, tmp_path: Path, missing: str, copy_folder: Callable[[Path, Path, str], Path]
) -> None:
    with pytest.raises(BadModel, match="tokenizer" if missing == "tokenizer.json" else "chat template"):
        load_tokenizer(str(copy_folder(model_folder, tmp_path / "model", missing)))


def test_a_folder_without_weights_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match="cannot be loaded"):
        load_policy(str(tmp_path), torch.float32, None, anchored=False)
