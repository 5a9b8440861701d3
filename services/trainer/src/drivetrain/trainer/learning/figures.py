"""What is reported of an optimiser step."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from drivetrain.trainer.losses import TokenLosses, Tokens
from drivetrain.trainer.losses.anchor import k3
from drivetrain.trainer.samples.samples import Sample


@dataclass
class Sums:
    """Running totals over a batch's response tokens."""

    tokens: int = 0
    values: dict[str, float] = field(default_factory=dict)

    def add(self, **values: float) -> None:
        for name, value in values.items():
            self.values[name] = self.values.get(name, 0.0) + value

    def mean(self, name: str, count: int | None = None) -> float:
        return self.values.get(name, 0.0) / max(1, self.tokens if count is None else count)


def observe(sums: Sums, sample: Sample, tokens: Tokens, terms: TokenLosses, version: int) -> None:
    """Add one sample's tokens; the gap to the engine counts only those that `version` sampled."""
    mask, advantage = terms.mask, tokens.advantage[terms.mask]
    sums.tokens += int(mask.sum())
    sums.add(advantage=float(advantage.sum()), advantage_square=float((advantage**2).sum()))
    sums.add(clipped=float(terms.clipped.sum()), ratio=float(terms.ratio[mask].sum()))
    sums.add(weight=float(terms.weight.sum()), refused=float((mask & (terms.weight == 0)).sum()))
    if tokens.reference is not None:
        sums.add(kl=float(k3(tokens.old, tokens.reference)[mask].sum()))
    own = mask & ~torch.isnan(tokens.mu) & (torch.tensor(sample.versions, device=mask.device) == version)
    gap = (tokens.old - tokens.mu)[own]
    sums.add(gap_tokens=float(own.sum()), gap=float(gap.abs().sum()), gap_kl=float((gap.exp() - gap - 1).sum()))


def figures(batch: Sequence[Sample], sums: Sums, loss: float, norm: float) -> dict[str, float]:
    """A step's figures by name: means over the batch's trainable tokens, unless the name says otherwise."""
    mean = sums.mean("advantage")
    metrics = {
        "loss": loss,
        "grad_norm": norm,
        "turns": float(len(batch)),
        "tokens": float(sums.tokens),
        "reward_mean": sum(sample.reward for sample in batch) / len(batch),
        "teacher_share": sum(sample.teacher_ids is not None for sample in batch) / len(batch),
        "advantage_mean": mean,
        "advantage_std": math.sqrt(max(0.0, sums.mean("advantage_square") - mean**2)),
        "kl_reference": sums.mean("kl"),
        "entropy": sums.values["entropy"] / sum(len(sample.response_ids) for sample in batch),
        "clip_fraction": sums.mean("clipped"),
        "ratio_mean": sums.mean("ratio"),
        "correction_mean": sums.mean("weight"),
        "correction_zero_share": sums.mean("refused"),
        "computed_tokens": sums.values["computed"],
        "shared_prefix_saving": 1 - sums.values["computed"] / sums.values["whole"],
        "response_tokens_mean": sum(len(sample.response_ids) for sample in batch) / len(batch),
    }
    if "distil" in sums.values:
        metrics["distillation"] = sums.mean("distil")
    if counted := int(sums.values["gap_tokens"]):
        metrics["engine_gap"] = sums.mean("gap", counted)
        metrics["engine_kl"] = sums.mean("gap_kl", counted)
    return metrics


@contextmanager
def timed(into: dict[str, float], name: str) -> Iterator[None]:
    """Put the seconds that the block took into `into[name]`."""
    start = time.perf_counter()
    yield
    into[name] = time.perf_counter() - start
