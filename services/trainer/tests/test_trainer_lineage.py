"""The chain of versions through promotion, rejection and return."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.trainer.lineage.lineage import Lineage


def grown(*versions: int) -> Lineage:
    lineage = Lineage()
    for version in versions:
        lineage = lineage.grow(version, lineage.head, lineage.step + 1)
    return lineage


def test_staleness_counts_optimiser_steps_not_numbers() -> None:
    lineage = grown(1, 5, 9)
    assert [lineage.staleness(v) for v in (9, 5, 1, 0)] == [0, 1, 2, 3]
    assert lineage.staleness(4) is None
    assert lineage.staleness(99) is None
    assert lineage.staleness(-1) is None


def test_candidates_await_until_one_at_or_after_them_is_promoted() -> None:
    lineage = grown(1, 2, 3)
    assert lineage.awaiting() == [3, 2, 1]
    assert lineage.promote(2).awaiting() == [3]
    assert lineage.promote(3).awaiting() == []


def test_a_held_candidate_takes_its_descendants_with_it_and_numbers_go_on() -> None:
    lineage = grown(1, 2, 3).promote(1).reject(2, back_to=1)
    assert (lineage.head, lineage.step, lineage.next_version) == (1, 1, 4)
    assert lineage.staleness(2) is None
    assert lineage.staleness(3) is None
    assert lineage.awaiting() == []


def test_with_nothing_promoted_a_hold_leads_back_to_the_base() -> None:
    assert grown(1).reject(1, back_to=0).head == 0


def test_a_rollback_withdraws_a_promoted_version() -> None:
    lineage = grown(1, 2).promote(2).reject(2, back_to=1)
    assert (lineage.head, lineage.promoted) == (1, 1)


def test_promoting_an_ancestor_leaves_the_head_alone() -> None:
    assert grown(1, 2).promote(1).head == 2


def test_promoting_a_version_off_the_branch_moves_training_there() -> None:
    lineage = grown(1).reject(1, back_to=0).grow(2, 0, 1).promote(1)
    assert (lineage.head, lineage.promoted) == (1, 1)


def test_numbers_seen_elsewhere_are_never_used() -> None:
    assert Lineage().reserve(7).next_version == 8
    assert grown(9).reserve(7).next_version == 10


@pytest.mark.parametrize("version", [0, 1, 2])
def test_contains(version: int) -> None:
    assert grown(1, 2).contains(version)


@given(st.lists(st.sampled_from(["grow", "promote", "reject"]), max_size=25))
def test_the_head_is_always_a_version_that_was_not_rejected(events: list[str]) -> None:
    lineage = Lineage()
    used: set[int] = set()
    for event in events:
        if event == "grow":
            assert lineage.next_version not in used
            used.add(lineage.next_version)
            lineage = lineage.grow(lineage.next_version, lineage.head, lineage.step + 1)
        elif event == "promote":
            lineage = lineage.promote(lineage.head)
        elif lineage.head != lineage.promoted:
            lineage = lineage.reject(lineage.head, back_to=lineage.promoted)
        assert lineage.versions[lineage.head].fate != "rejected"
        assert lineage.contains(lineage.promoted)
