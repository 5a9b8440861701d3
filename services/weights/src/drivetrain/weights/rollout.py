"""What becomes of a version, from what each replica made of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Proved:
    """The replica serves the version: `seconds` to load, `gap` nats from the trainer's probe (mean; None for the base
    model, which has no probe)."""

    replica: str
    seconds: float
    gap: float | None


@dataclass(frozen=True)
class Rejected:
    """The version is at fault: the replica refused it, or its probe is not the trainer's."""

    replica: str
    reason: str


@dataclass(frozen=True)
class Down:
    """The replica is at fault: it could not be reached within the retries."""

    replica: str
    reason: str


Outcome = Proved | Rejected | Down


@dataclass(frozen=True)
class Promote:
    """These replicas proved the version; the others are out of rotation until they are brought up to date."""

    replicas: tuple[str, ...]


@dataclass(frozen=True)
class Hold:
    """The version is refused, for this reason."""

    reason: str


@dataclass(frozen=True)
class Wait:
    """No replica could be asked: nothing is known of the version, it stays a candidate."""

    reason: str


Verdict = Promote | Hold | Wait


def verdict(outcomes: Sequence[Outcome]) -> Verdict:
    """One rejection holds the version; one proof and no rejection promotes it; no answer decides nothing."""
    for outcome in outcomes:
        if isinstance(outcome, Rejected):
            return Hold(outcome.reason)
    proved = tuple(outcome.replica for outcome in outcomes if isinstance(outcome, Proved))
    if proved:
        return Promote(proved)
    return Wait("; ".join(outcome.reason for outcome in outcomes if isinstance(outcome, Down)))


def probe_gap(trainer: Sequence[float], replica: Sequence[float]) -> float:
    """The mean absolute difference of two series of logprobs, in nats.

    Raises:
        ValueError: they differ in length or are empty.
    """
    if len(trainer) != len(replica) or not trainer:
        raise ValueError(f"the probe has {len(trainer)} logprobs of the trainer and {len(replica)} of the replica")
    return sum(abs(a - b) for a, b in zip(trainer, replica, strict=True)) / len(trainer)
