"""From settings to the learning rule."""

from drivetrain.trainer.advantages import METHODS, GroupRules, Weights
from drivetrain.trainer.batches.rollouts import Comparison
from drivetrain.trainer.learning.learner import Recipe
from drivetrain.trainer.losses import ANCHORS, Objective, correction, objective
from drivetrain.trainer.settings.learning import GroupSettings, ReinforceSettings, SftSettings
from drivetrain.trainer.settings.settings import TrainerSettings

LOSS_OPTIONS = {"clip_low": "low", "clip_high": "high", "dual_clip": "dual", "cap": "cap"}
"""An option's name in the settings, and in the loss."""


def build_recipe(settings: TrainerSettings) -> Recipe:
    """The learning rule that the settings describe."""
    method, weights = METHODS[settings.method], settings.combine
    beta = (settings.reinforce_pp or ReinforceSettings()).beta
    default_top = 50 if method.distil == "reverse_kl" else 4
    return Recipe(
        method=method,
        weights=Weights(weights.rl if weights else 1.0, weights.opd if weights else 1.0, beta),
        objective=build_objective(settings),
        kl=settings.kl.coefficient if method.has_anchor else 0.0,
        max_grad_norm=settings.optimizer.max_grad_norm,
        micro_batch_tokens=settings.micro_batch_tokens,
        base_teacher=base_teacher(settings),
        top=(settings.distil and settings.distil.top) or default_top,
    )


def build_objective(settings: TrainerSettings) -> Objective:
    """What is minimised, as the settings describe."""
    loss, rules = settings.loss, settings.correction
    if METHODS[settings.method].supervised:
        return objective("sft")
    bypass = rules.name == "bypass"
    correct = correction("none" if bypass else rules.name, **rules.options)
    options = {LOSS_OPTIONS[name]: float(value) for name, value in loss.options.items()}
    return objective(loss.name, options, correct, ANCHORS[settings.kl.estimator], bypass)


def build_comparison(settings: TrainerSettings) -> Comparison:
    """How outcomes become rewards, where the method trains rollouts."""
    group, threshold = settings.group or GroupSettings(), (settings.sft or SftSettings()).threshold
    return Comparison(METHODS[settings.method], GroupRules(group.norm, group.ddof, group.step_weight), threshold)


def base_teacher(settings: TrainerSettings) -> bool:
    """Whether hints are read by the base model rather than by the policy."""
    return settings.hint is not None and settings.hint.teacher == "base"
