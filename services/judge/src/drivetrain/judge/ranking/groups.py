"""Which groups are to be ranked, and what their places are worth. Pure: no clock, only the events' own times."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drivetrain.common.events import RolloutFinished

COMPARED = ("success", "failure", "timeout", "context_overflow")
"""The endings of rollouts whose work can be compared; of the others only the reason is known."""


@dataclass(frozen=True)
class Ended:
    """A rollout's end, and its place in the stream."""

    sequence: int
    event: RolloutFinished

    @property
    def group(self) -> tuple[str, str]:
        return self.event.policy, self.event.rollout.group


def due(sequence: int, ends: Sequence[Ended], wait_s: float) -> list[list[Ended]]:
    """The groups of a run that the end at `sequence` makes due, among `ends`, all those known of the run.

    Its own group, if it is complete and this is its last end. Other groups that are not complete, if this end came more
    than `wait_s` after their last one. Whoever handles an end again, or another end beside it, finds the same.
    """
    groups: dict[tuple[str, str], list[Ended]] = {}
    for end in sorted(ends, key=lambda end: end.sequence):
        groups.setdefault(end.group, []).append(end)
    now = next(end for end in ends if end.sequence == sequence)
    return [
        members
        for group, members in groups.items()
        if (_complete(members) and members[-1].sequence == sequence)
        or (group != now.group and not _complete(members) and members[-1].event.at + wait_s < now.event.at)
    ]


def _complete(members: Sequence[Ended]) -> bool:
    return len(members) >= members[-1].event.rollout.group_size


def shuffled(rollouts: Sequence[str], run: str, group: str) -> list[str]:
    """The order in which rollouts are shown: the same for the same group, and no better for one than for another."""
    order = sorted(rollouts)
    random.Random(f"{run}/{group}").shuffle(order)
    return order


def places_of(given: Mapping[str, int]) -> dict[str, float]:
    """Places from 1 (best) out of what each was given (lower is better, gaps do not matter); equals share the mean of
    the places that they take."""
    order = sorted(given.values())
    return {name: order.index(value) + (order.count(value) + 1) / 2 for name, value in given.items()}


def reward_of(place: float, count: int) -> float:
    """A place among `count` as a reward: 1 for the best, -1 for the last, evenly between; a group's add up to 0."""
    return (count + 1 - 2 * place) / (count - 1)
