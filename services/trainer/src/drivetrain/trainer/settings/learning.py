"""Settings of the learning rule, each option with the names that read it. What is left out (None) is the name's own
default; given to another name it is an error."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from drivetrain.common.settings import Section
from drivetrain.trainer.settings.names import foreign


class Named(Section):
    """A choice by `name`, and options that only some names read: `OWNERS` says which."""

    OWNERS: ClassVar[dict[str, tuple[str, ...]]]
    KIND: ClassVar[str]
    name: str

    @model_validator(mode="after")
    def _options_apply_to_the_name(self) -> Self:
        for option in self.options:
            foreign(option, self.KIND, self.name, self.OWNERS[option])
        return self

    @property
    def options(self) -> dict[str, float | str]:
        """The options that were given."""
        return {option: value for option in self.OWNERS if (value := getattr(self, option)) is not None}


class LossSettings(Named):
    """`clip` and `gspo`: the ratio's bounds 1 - clip_low and 1 + clip_high (0.2 and 0.28; 3e-4 and 4e-4), `dual_clip`
    caps the loss of negative advantages (3). `cispo`: `cap` bounds the weight (5)."""

    KIND: ClassVar[str] = "loss"
    OWNERS: ClassVar[dict[str, tuple[str, ...]]] = {
        "clip_low": ("clip", "gspo"),
        "clip_high": ("clip", "gspo"),
        "dual_clip": ("clip",),
        "cap": ("cispo",),
    }
    name: Literal["clip", "gspo", "cispo"] = "clip"
    clip_low: float | None = Field(None, ge=0, lt=1)
    clip_high: float | None = Field(None, ge=0)
    dual_clip: float | None = Field(None, gt=1)
    cap: float | None = Field(None, gt=0)


class CorrectionSettings(Named):
    """The weight for what the engine sampled with, from π_old/μ: `tis` and `mis` up to `cap` (2; `mis` by `level`
    token or sequence), `icepop` within `low` and `high` (0.5, 5), `none`, or `bypass`: no weight, but the ratio is
    π_θ/μ."""

    KIND: ClassVar[str] = "correction"
    OWNERS: ClassVar[dict[str, tuple[str, ...]]] = {
        "cap": ("tis", "mis"),
        "level": ("mis",),
        "low": ("icepop",),
        "high": ("icepop",),
    }
    name: Literal["tis", "mis", "icepop", "none", "bypass"] = "tis"
    cap: float | None = Field(None, gt=0)
    level: Literal["token", "sequence"] | None = None
    low: float | None = Field(None, ge=0)
    high: float | None = Field(None, gt=0)


class KlSettings(Section):
    """The anchor to the frozen base model; 0 switches it off, and with it the guard against drift. `k3` pulls towards
    KL(base‖policy), `k2` towards KL(policy‖base); `k1` is the plain log ratio."""

    coefficient: float = Field(0.01, ge=0)
    estimator: Literal["k3", "k2", "k1"] = "k3"


class CombineSettings(Section):
    """How much the vote (`rl`) and the hinted teacher (`opd`) count in `combine`."""

    rl: float = Field(1.0, ge=0)
    opd: float = Field(1.0, ge=0)


class DistilSettings(Section):
    """How many candidate tokens are compared at each position: by default the policy's 4 likeliest (`hybrid`), or the
    teacher's 50 (`opd_topk`)."""

    top: int | None = Field(None, ge=1, le=1000)


class GroupSettings(Section):
    """Rollouts of one task, compared by outcome. A group trains when complete, or `max_wait_s` after its first rollout
    was scored. A rollout that timed out or whose harness crashed without a verdict counts as `failed_outcome`. `norm`
    `std` divides by the standard deviation (`ddof` as in statistics), `mean` does not; `step_weight` is how much a
    turn's own votes count beside the outcome."""

    norm: Literal["std", "mean"] = "std"
    ddof: Literal[0, 1] = 0
    step_weight: float = Field(1.0, ge=0)
    max_wait_s: float = Field(900.0, gt=0)
    failed_outcome: float = Field(-1.0, ge=-1, le=1)


class ReinforceSettings(Section):
    """What `reinforce_pp` charges for each nat that a token leaves the reference."""

    beta: float = Field(0.01, ge=0)


class SftSettings(Section):
    """Turns of rollouts whose outcome is at least `threshold` are imitated."""

    threshold: float = Field(1.0, ge=-1, le=1)


class HintSettings(Section):
    """How a hint reads in the teacher's prompt, right after the last message's own words, and who the teacher is: the
    `policy` as it is at the batch's start, or the frozen `base`, which says the same whatever was learnt since."""

    teacher: Literal["policy", "base"] = "policy"
    wording: str = Field("\n{hint}", pattern=r"\{hint\}")
