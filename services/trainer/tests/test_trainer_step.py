"""The default recipe's step on a fixed batch of a tiny model: the numbers it has always given.

They were recorded from a trainer that ran each turn through the model by itself, so they hold whatever shares work now.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from drivetrain.common.settings import resolve
from drivetrain.trainer.app import build_model, build_optimizer
from drivetrain.trainer.learning.learner import Learner
from drivetrain.trainer.learning.recipe import build_recipe
from drivetrain.trainer.samples.samples import Sample
from drivetrain.trainer.settings.settings import TrainerSettings

DEMO = [
    *["--policy", "demo", "--store", "s", "--method", "combine", "--hint.teacher", "base"],
    *["--kl.coefficient", "0.03", "--optimizer.learning_rate", "3e-5", "--optimizer.settle_steps", "10"],
]
EXPECTED = {
    "loss_0": -0.951903,
    "grad_norm_0": 24.1271,
    "advantage_mean_0": 0.982261,
    "advantage_std_0": 1.25235,
    "kl_reference_0": 0,
    "entropy_0": 3.98715,
    "engine_gap_0": 0.0999997,
    "loss_1": -0.012765,
    "grad_norm_1": 8.94048,
    "advantage_mean_1": 0.0855408,
    "advantage_std_1": 1.00039,
    "kl_reference_1": 1.53695,
    "entropy_1": 4.16909,
    "engine_gap_1": 1.89439,
    "moved": 0.760357,
    "moved_mean": 0.230178,
}


def batch_of(folder: Path) -> list[Sample]:
    """Two turns of one conversation, one turn of another with a hint, and a retry of the first turn's reply."""
    first = Sample("s", "a", 1, (3, 10, 20, 30), (40, 50, 60), (), (0, 0, 0), 1.0, 1.0)
    after = (*first.prompt_ids, *first.response_ids, 5, 6)
    second = replace(first, turn="b", sequence=2, prompt_ids=after, response_ids=(70, 71), versions=(0, 0), reward=-1.0)
    hinted = Sample(
        "r", "c", 3, (3, 11, 21), (41, 51, 61, 70), (), (0,) * 4, 0.7, -1.0, teacher_ids=(3, 11, 99, 98, 21)
    )
    retry = replace(first, turn="d", sequence=4, response_ids=(40, 51, 62), reward=0.0, teacher_ids=(3, 10, 7, 20, 30))
    made = [first, second, hinted, retry]
    return [replace(s, logprobs=sampled_at(folder, s)) for s in made]


def sampled_at(folder: Path, sample: Sample) -> tuple[float, ...]:
    """The plain model's log-probabilities, every other one a little above or below, as an engine's would be."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids, start = torch.tensor([sample.prompt_ids + sample.response_ids]), len(sample.prompt_ids)
    with torch.no_grad():
        scores = (model(ids).logits[0] / sample.temperature).log_softmax(-1)
    found = [float(scores[start + i - 1, token]) for i, token in enumerate(sample.response_ids)]
    return tuple(value + 0.1 * (-1) ** n for n, value in enumerate(found))


def two_steps(folder: Path) -> dict[str, float]:
    """What two steps reported and how far they moved the weights."""
    settings = resolve(TrainerSettings, "trainer", [*DEMO, "--model", str(folder)], environ={})
    policy = build_model(settings)
    before = torch.cat([p.detach().flatten().clone() for p in policy.parameters])
    learner = Learner(policy, build_optimizer(settings, policy), build_recipe(settings))
    learner.set_rate(3e-3)  # far enough for the anchor to pull
    batch = batch_of(folder)
    steps = [learner.step(batch, version=0).metrics for _ in range(2)]
    moved = torch.cat([p.detach().flatten() for p in policy.parameters]) - before
    names = ("loss", "grad_norm", "advantage_mean", "advantage_std", "kl_reference", "entropy", "engine_gap")
    found = {f"{name}_{number}": steps[number][name] for number in (0, 1) for name in names}
    return found | {"moved": float(moved.norm()), "moved_mean": float(moved.double().mean()) * 1e3}


def test_the_demos_step_is_what_it_was(model_folder: Path) -> None:
    assert two_steps(model_folder) == pytest.approx(EXPECTED, rel=2e-4, abs=1e-5)
