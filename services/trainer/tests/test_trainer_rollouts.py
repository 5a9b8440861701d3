"""Groups: when they are complete, what their members' outcomes are worth, and which teach nothing."""

from dataclasses import replace
from typing import Any, Literal

import pytest

from drivetrain.common.events import RolloutRef, RolloutScored
from drivetrain.trainer.advantages import METHODS, GroupRules
from drivetrain.trainer.batches.batches import Drop, Unit
from drivetrain.trainer.batches.rollouts import Comparison, Groups, Member, outcome_of
from drivetrain.trainer.samples.samples import Reason, Sample

SAMPLE = Sample("s", "t", 0, (1,), (2,), (-1.0,), (0,), 1.0, 0.0)


def member(name: str, sequence: int, outcome: float | None, turns: int = 1, **changes: Any) -> Member:
    samples = tuple(replace(SAMPLE, session=name, turn=f"t{n}", sequence=sequence) for n in range(turns))
    return replace(Member(name, sequence, 0, outcome, samples, (0.0,) * turns), **changes)


def compare(method: str, members: list[Member], **rules: Any) -> Unit | Drop:
    return Comparison(METHODS[method], GroupRules(**rules)).unit("g", members)


def rewards(made: Unit | Drop) -> dict[str, float]:
    assert isinstance(made, Unit)
    return {sample.key: round(sample.reward, 4) for sample in made.samples}


def test_every_turn_of_a_rollout_gets_its_share_of_the_comparison() -> None:
    made = compare("grpo", [member("b", 2, -1.0), member("a", 1, 1.0, turns=2)])
    assert rewards(made) == {"a/t0": 1.0, "a/t1": 1.0, "b/t0": -1.0}
    assert isinstance(made, Unit)
    assert made.sequences == (1, 2)


def test_a_failed_rollout_without_a_turn_counts_in_the_baseline() -> None:
    made = compare("rloo", [member("a", 1, 1.0), member("b", 2, 0.0), member("c", 3, -1.0, turns=0)])
    assert rewards(made) == {"a/t0": 1.5, "b/t0": 0.0}
    assert isinstance(made, Unit)
    assert made.sequences == (1, 2, 3)


def test_who_is_not_to_blame_does_not_count() -> None:
    made = compare("grpo", [member("a", 1, 1.0), member("b", 2, 0.0), member("c", 3, None)], norm="mean")
    assert rewards(made) == {"a/t0": 0.5, "b/t0": -0.5}


def test_grpo_step_adds_each_turns_own_votes() -> None:
    voted = member("a", 1, 1.0, turns=2, votes=(1.0, -1.0))
    made = compare("grpo_step", [voted, member("b", 2, 0.0)], norm="mean", step_weight=0.5)
    # step 0: 1.5 and 0; step 1 stands alone: 1 - 0.5
    assert rewards(made) == {"a/t0": 0.75, "a/t1": 0.5, "b/t0": -0.75}


@pytest.mark.parametrize(
    ("method", "members", "reason"),
    [
        ("grpo", [member("a", 1, 1.0), member("b", 2, 1.0)], Reason.CONSTANT),
        ("rloo", [member("a", 1, 1.0)], Reason.CONSTANT),
        ("grpo", [member("a", 1, None)], Reason.UNRESOLVED),
        ("grpo", [member("a", 1, 1.0, turns=0), member("b", 2, 0.0, turns=0)], Reason.EMPTY),
        ("sft", [member("a", 1, 0.5)], Reason.NO_SIGNAL),
        ("reinforce_pp", [member("a", 1, None)], Reason.UNRESOLVED),
    ],
)
def test_what_teaches_nothing_is_dropped_whole(method: str, members: list[Member], reason: Reason) -> None:
    made = compare(method, members)
    assert isinstance(made, Drop)
    assert made.reason == reason
    assert set(made.unit.sequences) == {one.sequence for one in members}


def test_sft_imitates_what_reached_the_threshold() -> None:
    assert rewards(compare("sft", [member("a", 1, 1.0)])) == {"a/t0": 1.0}
    assert rewards(compare("reinforce_pp", [member("a", 1, -0.5)])) == {"a/t0": -0.5}


def test_a_group_is_ready_when_it_is_complete() -> None:
    groups = Groups(max_wait_s=60)
    assert groups.add("g", 2, member("a", 1, 1.0), 0.0) == []
    assert groups.ready(1.0) == {}
    assert groups.due_in(1.0) == 59.0
    groups.add("g", 2, member("b", 2, 0.0), 1.0)
    assert [one.rollout for one in groups.ready(1.0)["g"]] == ["a", "b"]
    assert groups.ready(99.0) == {}
    assert groups.due_in(99.0) is None


def test_a_group_goes_incomplete_after_its_deadline() -> None:
    groups = Groups(max_wait_s=60)
    groups.add("g", 3, member("a", 1, 1.0), 0.0)
    groups.add("g", 3, member("b", 2, 1.0), 50.0)
    assert list(groups.ready(59.9)) == []
    assert len(groups.ready(60.0)["g"]) == 2


def test_of_two_revisions_of_a_rollout_the_higher_holds() -> None:
    groups = Groups(max_wait_s=60)
    groups.add("g", 2, member("a", 1, 1.0, revision=1), 0.0)
    assert groups.add("g", 2, member("a", 2, 0.0, revision=0), 0.0) == [2]
    assert groups.add("g", 2, member("a", 3, -1.0, revision=2), 0.0) == [1]
    groups.add("g", 2, member("b", 4, 0.0), 0.0)
    assert [one.sequence for one in groups.ready(0.0)["g"]] == [3, 4]


@pytest.mark.parametrize(
    ("outcome", "reason", "counts"),
    [
        (0.5, "success", 0.5),
        (None, "failure", None),
        (None, "timeout", -1.0),
        (None, "harness_crash", -1.0),
        (None, "infrastructure", None),
        (None, "cancelled", None),
    ],
)
def test_what_a_rollout_without_a_verdict_counts(
    outcome: float | None,
    reason: Literal["success", "failure", "timeout", "harness_crash", "infrastructure", "cancelled"],
    counts: float | None,
) -> None:
    ref = RolloutRef(run="r", group="g", rollout="a", group_size=2)
    event = RolloutScored(
        policy="p", session="s", rollout=ref, judge="rules", n=0, outcome=outcome, reason=reason, turns=[], at=0.0
    )
    assert outcome_of(event, failed=-1.0) == counts
