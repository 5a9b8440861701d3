"""Rollouts that are compared: a group is complete, or its deadline has passed, and then its members' outcomes become
the rewards of their turns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from drivetrain.common.events import RolloutScored
from drivetrain.trainer.advantages import GroupRules, Method
from drivetrain.trainer.advantages.groups import grpo_step, is_constant
from drivetrain.trainer.batches.batches import Drop, Unit
from drivetrain.trainer.samples.samples import Reason, Sample

NOT_THE_POLICYS_FAULT = ("infrastructure", "cancelled")


@dataclass(frozen=True)
class Member:
    """One rollout: its score's place in the stream and revision, its outcome (None where nothing can be said of it),
    and its turns that can be trained, each with the mean of its own votes."""

    rollout: str
    sequence: int
    revision: int
    outcome: float | None
    samples: tuple[Sample, ...]
    votes: tuple[float, ...] = ()


def outcome_of(event: RolloutScored, failed: float) -> float | None:
    """What a rollout came to: one that failed without a verdict counts as `failed`, one that the policy is not to blame
    for does not count at all."""
    if event.outcome is not None or event.reason in NOT_THE_POLICYS_FAULT:
        return event.outcome
    return None if event.reason in ("success", "failure") else failed


@dataclass(frozen=True)
class Comparison:
    """How outcomes become rewards: by the method's baseline, or for `sft` by a threshold that they must reach."""

    method: Method
    rules: GroupRules
    threshold: float = 1.0

    def unit(self, key: str, members: Sequence[Member]) -> Unit | Drop:
        """The unit of a group's members in order of their rollouts, or why it is not trained."""
        ordered = sorted(members, key=lambda member: member.rollout)
        sequences = tuple(member.sequence for member in ordered)
        counted = [member for member in ordered if member.outcome is not None]
        if not counted:
            return Drop(Unit(key, (), sequences), Reason.UNRESOLVED)
        outcomes = torch.tensor([member.outcome for member in counted], dtype=torch.float64)
        rewards = self._rewards(outcomes, counted)
        if rewards is None:
            everything = tuple(sample for member in ordered for sample in member.samples)
            reason = Reason.CONSTANT if self.method.unit == "group" else Reason.NO_SIGNAL
            return Drop(Unit(key, everything, sequences), reason)
        samples = tuple(
            replace(sample, reward=reward)
            for member, own in zip(counted, rewards, strict=True)
            for sample, reward in zip(member.samples, own, strict=True)
        )
        unit = Unit(key, samples, sequences)
        return unit if samples else Drop(unit, Reason.EMPTY)

    def _rewards(self, outcomes: torch.Tensor, members: Sequence[Member]) -> list[list[float]] | None:
        """Of every sample of every member; None if there is nothing to learn."""
        method = self.method
        if method.unit == "group" and method.baseline is None:
            steps = grpo_step(outcomes, [member.votes for member in members], self.rules)
            return steps if any(value for row in steps for value in row) else None
        if method.baseline is not None:
            if is_constant(outcomes):
                return None
            values = method.baseline(outcomes, self.rules).tolist()
        else:
            values = outcomes.tolist()
            if method.supervised and values[0] < self.threshold:
                return None
        return [[value] * len(member.samples) for value, member in zip(values, members, strict=True)]


@dataclass(frozen=True)
class Gathering:
    """Members of a group so far, by rollout, how many there will be, and when the first came."""

    members: dict[str, Member]
    size: int
    since: float


class Groups:
    """Groups that are not complete yet. After `max_wait_s` a group goes with the members that it has."""

    def __init__(self, max_wait_s: float) -> None:
        self._max_wait_s = max_wait_s
        self._gathering: dict[str, Gathering] = {}

    def add(self, key: str, size: int, member: Member, now: float) -> list[int]:
        """Add a member. Of two revisions of one rollout the higher holds; the sequences of the other are returned."""
        group = self._gathering.setdefault(key, Gathering({}, size, now))
        earlier = group.members.get(member.rollout)
        if earlier is not None and earlier.revision >= member.revision:
            return [member.sequence]
        group.members[member.rollout] = member
        return [earlier.sequence] if earlier else []

    def ready(self, now: float) -> dict[str, list[Member]]:
        """Groups that are complete or have waited long enough; they are not kept."""
        due = [
            key
            for key, group in self._gathering.items()
            if len(group.members) >= group.size or now - group.since >= self._max_wait_s
        ]
        return {key: list(self._gathering.pop(key).members.values()) for key in due}

    def due_in(self, now: float) -> float | None:
        """Seconds until the next deadline."""
        waits = (max(0.0, group.since + self._max_wait_s - now) for group in self._gathering.values())
        return min(waits, default=None)
