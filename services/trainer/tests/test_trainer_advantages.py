"""What each method makes of a turn's vote and of its hint."""

import pytest
import torch

from drivetrain.trainer.advantages import METHODS, Signals, Weights

OLD = torch.tensor([-1.0, -2.0, -0.5])
EVEN = Weights()
TEACHER = torch.tensor([-0.5, -4.0, -0.5])


def advantage(method: str, reward: float, teacher: torch.Tensor | None, weights: Weights = EVEN) -> list[float]:
    values: list[float] = METHODS[method].rule(Signals(reward, OLD, teacher), weights).tolist()
    return values


@pytest.mark.parametrize("reward", [-1.0, 0.0, 1.0])
def test_binary_is_the_vote_on_every_token(reward: float) -> None:
    assert advantage("binary", reward, TEACHER) == [reward] * 3


def test_opd_is_teacher_minus_student() -> None:
    assert advantage("opd", -1.0, TEACHER) == [0.5, -2.0, 0.0]


def test_opd_without_a_hint_is_exactly_zero() -> None:
    assert advantage("opd", -1.0, None) == [0.0, 0.0, 0.0]


def test_combine_adds_both() -> None:
    assert advantage("combine", -1.0, TEACHER) == [-0.5, -3.0, -1.0]


def test_combine_weighs_both() -> None:
    assert advantage("combine", -1.0, TEACHER, Weights(rl=0.5, opd=2.0)) == [0.5, -4.5, -0.5]


def test_combine_with_one_signal_uses_that_one_alone() -> None:
    assert advantage("combine", 1.0, None) == [1.0, 1.0, 1.0]
    assert advantage("combine", 0.0, TEACHER) == advantage("opd", 0.0, TEACHER)


@pytest.mark.parametrize(
    ("method", "reward", "hinted", "counts"),
    [
        ("binary", 1.0, False, True),
        ("binary", 0.0, True, False),
        ("opd", 1.0, False, False),
        ("opd", 0.0, True, True),
        ("combine", 0.0, False, False),
        ("combine", 0.0, True, True),
        ("combine", -1.0, False, True),
    ],
)
def test_which_turns_count_towards_a_batch(method: str, reward: float, hinted: bool, counts: bool) -> None:
    assert METHODS[method].has_signal(reward, hinted) is counts
