"""The trainer's settings. An option that the chosen method would not read is an error, not a surprise."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from drivetrain.common.settings import Section, Settings
from drivetrain.trainer.advantages import METHODS
from drivetrain.trainer.settings.learning import (
    CombineSettings,
    CorrectionSettings,
    DistilSettings,
    GroupSettings,
    HintSettings,
    KlSettings,
    LossSettings,
    ReinforceSettings,
    SftSettings,
)
from drivetrain.trainer.settings.names import foreign


class BatchSettings(Section):
    """A batch trains when `size` turns are there, or `max_wait_s` after the oldest came if `min_size` are. A turn whose
    oldest token is more than `max_staleness` optimiser steps behind is dropped."""

    size: int = Field(16, ge=1, le=4096)
    min_size: int = Field(4, ge=1)
    max_wait_s: float = Field(30.0, gt=0)
    max_staleness: int = Field(4, ge=0)

    @model_validator(mode="after")
    def _minimum_fits(self) -> Self:
        if self.min_size > self.size:
            raise ValueError(f"min_size {self.min_size} is above size {self.size}: lower it")
        return self


class OptimizerSettings(Section):
    """AdamW. With `settle_steps` the learning rate is half of `learning_rate` after so many steps, a third after twice
    as many, and so on: fast at first, then calm; without it, constant."""

    learning_rate: float = Field(2e-5, gt=0)
    settle_steps: float | None = Field(None, gt=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.999, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)


class LoraSettings(Section):
    """Train a low-rank adapter; it is merged into full weights in every checkpoint."""

    rank: int = Field(16, ge=1)
    alpha: float = Field(32.0, gt=0)


class PrecisionSettings(Section):
    """Weights are trained in float32. `compute` is what the model's layers calculate in (`auto`: bfloat16 where the
    processor multiplies it natively), `checkpoint` what they are served in: give the replicas the same."""

    compute: Literal["float32", "bfloat16", "auto"] = "float32"
    checkpoint: Literal["float32", "bfloat16"] = "float32"


SECTIONS = {
    "combine": ("combine",),
    "distil": tuple(name for name, method in METHODS.items() if method.distil),
    "group": tuple(name for name, method in METHODS.items() if method.unit == "group"),
    "reinforce_pp": ("reinforce_pp",),
    "sft": ("sft",),
    "loss": tuple(name for name, method in METHODS.items() if method.has_ratio),
    "correction": tuple(name for name, method in METHODS.items() if not method.supervised),
    "kl": tuple(name for name, method in METHODS.items() if method.has_anchor),
    "hint": tuple(name for name, method in METHODS.items() if method.uses_teacher),
}
"""Which methods read a section of settings; sections not named here are read by all."""


GROUP_OPTIONS = {"norm": ("grpo", "grpo_step"), "ddof": ("grpo", "grpo_step"), "step_weight": ("grpo_step",)}
"""Options of groups that only some of their methods read."""


class TrainerSettings(Settings):
    """Settings of the trainer, which trains one policy."""

    policy: str = Field(pattern="^[a-z0-9_-]{1,64}$")
    judge: str = Field("rules", pattern="^[a-z0-9_-]{1,64}$", description="whose scores are trained, by the judge's id")
    model: str = Field(min_length=1, description="folder or name of the base model: version 0 of the policy")
    store: Path = Field(description="folder of all checkpoints, shared with the weights service")
    method: Literal[
        "binary", "opd", "combine", "opd_topk", "hybrid", "grpo", "grpo_step", "rloo", "reinforce_pp", "sft"
    ] = "combine"
    combine: CombineSettings | None = None
    distil: DistilSettings | None = None
    group: GroupSettings | None = None
    reinforce_pp: ReinforceSettings | None = None
    sft: SftSettings | None = None
    hint: HintSettings | None = None
    loss: LossSettings = LossSettings()
    correction: CorrectionSettings = CorrectionSettings()
    kl: KlSettings = KlSettings()
    batch: BatchSettings = BatchSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    lora: LoraSettings | None = None
    precision: PrecisionSettings = PrecisionSettings()
    max_ahead: int = Field(1, ge=0, description="candidates that may await promotion while training goes on")
    keep: int = Field(3, ge=1, description="checkpoints kept, beside the promoted one and those that await promotion")
    state_every: int = Field(1, ge=1, description="steps between two checkpoints that hold the optimiser too")
    max_tokens: int = Field(4096, ge=2, description="longest prompt and response that are trained")
    micro_batch_tokens: int = Field(2048, ge=1, description="padded tokens that go through the model at once")
    threads: int | None = Field(None, ge=1, description="torch's threads; by default torch decides")
    device: str = "cpu"

    @model_validator(mode="after")
    def _options_apply_to_the_method(self) -> Self:
        for section, methods in SECTIONS.items():
            if section in self.model_fields_set and getattr(self, section) is not None:
                foreign(f"{section}.*", "method", self.method, methods)
        for option in self.group.model_fields_set & GROUP_OPTIONS.keys() if self.group else ():
            foreign(f"group.{option}", "method", self.method, GROUP_OPTIONS[option])
        return self
