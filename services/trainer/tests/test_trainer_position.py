"""The position in the stream: a floor and the set above it, compact, and never claiming what was not settled."""

from hypothesis import given
from hypothesis import strategies as st

from drivetrain.trainer.batches.position import Position


def test_the_floor_rises_when_the_gap_closes() -> None:
    position = Position()
    position.settle(2)
    assert (position.floor, position.intervals) == (0, [(2, 2)])
    position.settle(1)
    assert (position.floor, position.intervals) == (2, [(1, 2)])


def test_it_survives_being_stored() -> None:
    position = Position()
    for sequence in (1, 2, 5, 9):
        position.settle(sequence)
    assert Position(position.intervals).intervals == [(1, 2), (5, 5), (9, 9)]


def test_numbers_between_two_first_deliveries_belong_to_others() -> None:
    position = Position()
    position.delivered(3, attempt=1)
    position.delivered(7, attempt=1)
    assert position.intervals == [(4, 6)]
    assert 3 not in position
    assert 7 not in position


def test_after_a_restart_nothing_is_assumed_about_what_came_before() -> None:
    position = Position([(1, 4)])
    position.delivered(9, attempt=1)
    assert 6 not in position


def test_a_redelivery_tells_nothing_about_gaps() -> None:
    position = Position()
    position.delivered(3, attempt=2)
    position.delivered(9, attempt=1)
    assert position.intervals == []


def test_a_copy_is_independent() -> None:
    position = Position([(1, 1)])
    twin = position.copy()
    position.settle(2)
    assert 2 not in twin


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 5)), max_size=30))
def test_it_is_a_set_of_numbers_in_the_fewest_intervals(ranges: list[tuple[int, int]]) -> None:
    position, expected = Position(), set()
    for low, length in ranges:
        position.settle(low, low + length)
        expected |= set(range(low, low + length + 1))
    assert {n for n in range(70) if n in position} == expected
    gaps = [b[0] - a[1] for a, b in zip(position.intervals, position.intervals[1:], strict=False)]
    assert all(gap >= 2 for gap in gaps)
