"""Events about a version, followed by the lineage."""

import pytest

from drivetrain.common.events import WeightsCandidate, WeightsHeld, WeightsPromoted, WeightsRolledback
from drivetrain.trainer.lineage.fates import Unfollowable, follow
from drivetrain.trainer.lineage.lineage import Lineage

TWO = Lineage().grow(1, 0, 1).grow(2, 1, 2)


def promoted(version: int) -> WeightsPromoted:
    return WeightsPromoted(policy="p", version=version, at=0.0, replicas=[])


def held(version: int) -> WeightsHeld:
    return WeightsHeld(policy="p", version=version, at=0.0, reason="drift")


def rolled_back(version: int, to: int) -> WeightsRolledback:
    return WeightsRolledback(policy="p", version=version, at=0.0, to=to, reason="worse")


def test_a_promoted_version_serves() -> None:
    assert follow(TWO, promoted(1)).promoted == 1


def test_a_held_candidate_leads_back_to_the_promoted_one() -> None:
    assert follow(follow(TWO, promoted(1)), held(2)).head == 1


def test_a_late_hold_of_a_promoted_version_changes_nothing() -> None:
    serving = follow(TWO, promoted(2))
    assert follow(serving, held(2)) == serving


def test_a_rollback_goes_to_the_version_it_names() -> None:
    after = follow(follow(TWO, promoted(2)), rolled_back(2, to=0))
    assert (after.head, after.promoted) == (0, 0)


def test_an_unknown_version_only_reserves_its_number() -> None:
    after = follow(TWO, promoted(7))
    assert (after.head, after.promoted, after.next_version) == (2, 0, 8)


def test_the_same_event_twice_is_one() -> None:
    once = follow(TWO, held(2))
    assert follow(once, held(2)) == once


def test_what_cannot_be_followed_says_why() -> None:
    with pytest.raises(Unfollowable, match="does not know"):
        follow(TWO, rolled_back(2, to=9))
    with pytest.raises(Unfollowable, match="WeightsCandidate"):
        follow(TWO, WeightsCandidate(policy="p", version=1, at=0.0, parent=0, digest="", step=1))
