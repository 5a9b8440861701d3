"""When a batch is due, and which samples never make it into one."""

from dataclasses import replace

import pytest

from drivetrain.trainer.batches.batches import Batches, BatchRules, Drop, Unit, samples_of, unit_of
from drivetrain.trainer.samples.samples import Reason, Sample

RULES = BatchRules(size=3, min_size=2, max_wait_s=10.0, max_staleness=2)


def sample(number: int, turn: str = "", version: int = 0) -> Sample:
    return Sample("s", turn or f"t{number}", number, (1,), (2,), (-1.0,), (version,), 1.0, 1.0)


def filled(*numbers: int, at: float = 0.0) -> Batches:
    batches = Batches(RULES)
    for number in numbers:
        batches.add(unit_of(sample(number)), at)
    return batches


def test_a_full_batch_is_taken_at_once_oldest_first() -> None:
    batches = filled(4, 2, 3, 5)
    assert batches.due_in(0.0) == 0.0
    assert [s.sequence for s in samples_of(batches.take(0.0))] == [2, 3, 4]
    assert len(batches) == 1


def test_a_small_batch_waits_for_the_oldest_to_have_waited_long_enough() -> None:
    batches = filled(1)
    batches.add(unit_of(sample(2)), 7.0)
    assert batches.due_in(7.0) == 3.0
    assert batches.take(9.9) == []
    assert [s.sequence for s in samples_of(batches.take(10.0))] == [1, 2]


def test_less_than_the_minimum_is_never_due() -> None:
    batches = filled(1)
    assert batches.due_in(1e9) is None
    assert batches.take(1e9) == []


def test_a_newer_score_of_a_waiting_turn_replaces_the_older() -> None:
    batches = filled(1)
    newer = unit_of(replace(sample(9, turn="t1"), reward=-1.0))
    assert batches.add(newer, 5.0) == [Drop(unit_of(sample(1)), Reason.SUPERSEDED)]
    batches.add(unit_of(sample(2)), 5.0)
    assert batches.take(10.0) == [newer, unit_of(sample(2))]


def test_an_older_score_that_comes_late_is_dropped() -> None:
    batches = Batches(RULES)
    batches.add(unit_of(sample(9, turn="t")), 0.0)
    late = unit_of(sample(3, turn="t"))
    assert batches.add(late, 1.0) == [Drop(late, Reason.SUPERSEDED)]


@pytest.mark.parametrize(("steps", "reason"), [(0, None), (2, None), (3, Reason.STALE), (None, Reason.REJECTED)])
def test_staleness_is_checked_against_the_current_weights(steps: int | None, reason: Reason | None) -> None:
    batches = filled(1)
    drops = batches.expire(lambda _: steps)
    assert [drop.reason for drop in drops] == ([reason] if reason else [])
    assert len(batches) == (0 if reason else 1)


def test_a_score_that_saw_less_never_replaces_a_better_informed_one() -> None:
    batches = Batches(RULES)
    informed, hasty = (unit_of(replace(s, seen=n)) for s, n in ((sample(1), 2), (sample(9, turn="t1"), 1)))
    assert batches.add(informed, 0.0) == []
    assert batches.add(hasty, 1.0) == [Drop(hasty, Reason.SUPERSEDED)]
    assert batches.add(better := unit_of(replace(sample(4, turn="t1"), seen=3)), 2.0) == [
        Drop(informed, Reason.SUPERSEDED)
    ]
    batches.add(unit_of(sample(5)), 2.0)
    assert batches.take(10.0) == [better, unit_of(sample(5))]


def group(key: str, *numbers: int, version: int = 0) -> Unit:
    samples = tuple(sample(number, turn=f"{key}{number}", version=version) for number in numbers)
    return Unit(key, samples, numbers)


def test_units_are_never_cut_though_a_batch_grows_beyond_its_size() -> None:
    batches = Batches(RULES)
    for unit in (group("a", 1, 2), group("b", 3, 4), group("c", 5)):
        batches.add(unit, 0.0)
    assert [unit.key for unit in batches.take(0.0)] == ["a", "b"]
    assert len(batches) == 1


def test_a_unit_goes_with_its_oldest_sample() -> None:
    batches = Batches(RULES)
    batches.add(mixed := Unit("g", (sample(1, version=9), sample(2, version=1)), (1, 2)), 0.0)
    assert batches.expire(lambda one: 9 - one.versions[0]) == [Drop(mixed, Reason.STALE)]
    assert len(batches) == 0
