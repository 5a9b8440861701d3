"""The default recipe's step on a fixed batch of a tiny model: the numbers it has always given.

They were recorded from a trainer that ran each turn through the model by itself, so they hold whatever shares work now.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_trainer_learner import logprobs

from drivetrain.common.settings import resolve
from drivetrain.trainer.app import build_model, build_optimizer, build_recipe
from drivetrain.trainer.learner import Learner
from drivetrain.trainer.rows import Item
from drivetrain.trainer.samples import Sample
from drivetrain.trainer.settings import TrainerSettings

DEMO = [
    *["--policy", "demo", "--store", "s", "--method", "combine", "--hint.teacher", "base"],
    *["--kl.coefficient", "0.03", "--optimizer.learning_rate", "3e-5", "--optimizer.settle_steps", "10"],
]
EXPECTED = {}


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
    items = [Item(s.prompt_ids, s.response_ids, s.temperature) for s in made]
    drifted = [tuple(v + 0.1 * (-1) ** n for n, v in enumerate(logprobs(folder, item))) for item in items]
    return [replace(s, logprobs=mu) for s, mu in zip(made, drifted, strict=True)]


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
