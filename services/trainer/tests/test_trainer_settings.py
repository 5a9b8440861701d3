"""Settings: typed, and an option that would not be read is refused."""

import pytest
import torch

from drivetrain.common.settings import BadSettings, resolve
from drivetrain.trainer.app import base_name, compute_dtype
from drivetrain.trainer.learning.recipe import build_recipe
from drivetrain.trainer.losses import Clip
from drivetrain.trainer.settings.settings import TrainerSettings

NEEDED = ["--policy", "demo", "--model", "m", "--store", "s"]


def settings(*flags: str) -> TrainerSettings:
    return resolve(TrainerSettings, "trainer", [*NEEDED, *flags], environ={})


def test_defaults_are_the_documented_recipe() -> None:
    recipe = build_recipe(settings())
    assert recipe.method.name == "combine"
    assert recipe.objective.policy.keywords["clip"] == Clip(0.2, 0.28, 3.0)  # type: ignore[attr-defined]
    assert recipe.objective.correction(torch.tensor([0.0]), torch.tensor([-9.0])).tolist() == [2.0]
    assert recipe.kl > 0


def test_weights_of_combine_reach_the_recipe() -> None:
    recipe = build_recipe(settings("--combine.rl", "0.25", "--correction.cap", "3"))
    assert (recipe.weights.rl, recipe.weights.opd) == (0.25, 1.0)
    assert recipe.objective.correction(torch.tensor([0.0]), torch.tensor([-9.0])).tolist() == [3.0]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--method", "binary", "--combine.rl", "0.5"], "combine.* does not apply"),
        (["--method", "binary", "--hint.wording", "x {hint}"], "choose opd or combine"),
        (["--method", "opd", "--combine.rl", "1"], "combine.* does not apply"),
        (["--correction.name", "none", "--correction.cap", "2"], "cap does not apply to correction 'none'"),
        (["--correction.name", "tis", "--correction.level", "token"], "choose mis"),
        (["--correction.name", "mis", "--correction.high", "3"], "choose icepop"),
        (["--correction.name", "bypass", "--correction.cap", "3"], "choose tis or mis"),
        (["--loss.name", "cispo", "--loss.clip_low", "0.1"], "choose clip or gspo"),
        (["--loss.name", "gspo", "--loss.dual_clip", "4"], "dual_clip does not apply to loss 'gspo'"),
        (["--loss.cap", "4"], "choose cispo"),
        (["--distil.top", "4"], "distil.* does not apply to method 'combine': remove it, or choose opd_topk or hybrid"),
        (
            ["--group.norm", "mean"],
            "group.* does not apply to method 'combine': remove it, or choose grpo or grpo_step",
        ),
        (["--method", "rloo", "--group.norm", "mean"], "group.norm does not apply to method 'rloo'"),
        (["--method", "grpo", "--group.step_weight", "2"], "choose grpo_step"),
        (["--method", "grpo", "--sft.threshold", "0.5"], "choose sft"),
        (["--method", "sft", "--correction.name", "mis"], "correction.* does not apply to method 'sft'"),
        (["--method", "reinforce_pp", "--kl.coefficient", "0.1"], "kl.* does not apply to method 'reinforce_pp'"),
        (["--method", "ppo"], "method"),
        (["--method", "opd_topk", "--loss.name", "gspo"], "loss.* does not apply to method 'opd_topk'"),
        (["--batch.size", "2", "--batch.min_size", "3"], "above size"),
        (["--hint.wording", "no place"], "wording"),
        (["--method", "magic"], "method"),
        (["--policy", "Not Allowed"], "policy"),
        (["--batch.sise", "2"], "sise"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(flags: list[str], message: str) -> None:
    with pytest.raises(BadSettings) as error:
        settings(*flags)
    assert message in str(error.value)


def test_each_distillation_has_its_own_number_of_candidates() -> None:
    assert build_recipe(settings("--method", "hybrid")).top == 4
    assert build_recipe(settings("--method", "opd_topk")).top == 50
    assert build_recipe(settings("--method", "hybrid", "--distil.top", "7")).top == 7


def test_what_a_method_does_without_is_off() -> None:
    sft, reinforce = (build_recipe(settings("--method", name)) for name in ("sft", "reinforce_pp"))
    assert (sft.kl, reinforce.kl, reinforce.weights.beta) == (0.0, 0.0, 0.01)
    assert not sft.objective.needs_engine
    assert build_recipe(settings("--method", "reinforce_pp", "--reinforce_pp.beta", "0.5")).weights.beta == 0.5


def test_opd_takes_a_wording_for_its_hints() -> None:
    assert settings("--method", "opd", "--hint.wording", "Note: {hint}").hint is not None


def test_a_folder_is_named_by_its_absolute_path_and_a_hub_model_by_its_name() -> None:
    assert base_name("org/model") == "org/model"
    assert base_name(".").startswith("/")


@pytest.mark.parametrize(
    ("wanted", "native", "dtype"),
    [
        ("float32", True, None),
        ("bfloat16", False, torch.bfloat16),
        ("auto", True, torch.bfloat16),
        ("auto", False, None),
    ],
)
def test_auto_calculates_in_bfloat16_only_where_that_is_native(
    monkeypatch: pytest.MonkeyPatch, wanted: str, native: bool, dtype: torch.dtype | None
) -> None:
    monkeypatch.setattr("drivetrain.trainer.app.bfloat16_is_native", lambda device: native)
    assert compute_dtype(settings("--precision.compute", wanted)) is dtype
