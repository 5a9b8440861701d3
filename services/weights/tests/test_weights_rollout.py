"""What becomes of a version, from what each replica made of it."""

import math

import pytest

from drivetrain.weights.rollout import Down, Hold, Promote, Proved, Rejected, Wait, probe_gap, verdict


def test_every_replica_proved_it() -> None:
    assert verdict([Proved("a", 1.0, 0.0), Proved("b", 2.0, 1e-5)]) == Promote(("a", "b"))


def test_one_rejection_holds_the_version_even_if_others_proved_it() -> None:
    assert verdict([Proved("a", 1.0, 0.0), Rejected("b", "shape")]) == Hold("shape")


def test_a_replica_that_is_down_does_not_stop_the_others() -> None:
    assert verdict([Down("a", "connection refused"), Proved("b", 1.0, 0.0)]) == Promote(("b",))


def test_no_replica_answering_decides_nothing() -> None:
    assert verdict([Down("a", "refused"), Down("b", "timeout")]) == Wait("refused; timeout")


def test_the_gap_is_the_mean_absolute_difference() -> None:
    assert probe_gap([-1.0, -2.0, -3.0], [-1.0, -2.5, -2.0]) == pytest.approx(0.5)


def test_a_gap_that_is_not_a_number_stays_one() -> None:
    assert math.isnan(probe_gap([-1.0], [math.nan]))


@pytest.mark.parametrize(("trainer", "replica"), [([], []), ([-1.0], [-1.0, -2.0])])
def test_probes_of_different_length_are_not_compared(trainer: list[float], replica: list[float]) -> None:
    with pytest.raises(ValueError, match="probe has"):
        probe_gap(trainer, replica)
