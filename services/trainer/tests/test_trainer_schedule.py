import pytest

from drivetrain.trainer.learning.schedule import learning_rate
from drivetrain.trainer.settings.settings import OptimizerSettings


def test_without_settling_the_rate_stays() -> None:
    assert {learning_rate(2e-5, None, step) for step in (0, 1, 1000)} == {2e-5}


def test_the_rate_is_half_after_the_settling_steps_and_a_third_after_twice_as_many() -> None:
    rates = [learning_rate(3e-5, 8, step) for step in (0, 8, 16, 24)]
    assert rates == pytest.approx([3e-5, 1.5e-5, 1e-5, 7.5e-6])


def test_settling_over_no_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="settle_steps"):
        OptimizerSettings(settle_steps=0)
