"""Rules that compare rollouts, and rules over whole batches: by hand, and properties that hold for any outcomes."""

import math
import statistics
from collections.abc import Callable
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.trainer.advantages import METHODS, GroupRules, Signals, Weights
from drivetrain.trainer.advantages.gae import gae
from drivetrain.trainer.advantages.groups import grpo, grpo_step, is_constant, rloo
from drivetrain.trainer.advantages.hybrid import candidate_advantages, closest_hint, overlap
from drivetrain.trainer.advantages.reinforce import reinforce_pp, whitened

outcomes = st.lists(st.floats(-1, 1), min_size=2, max_size=8)


def tensor(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_grpo_by_hand() -> None:
    # mean 0, population deviation 1; with ddof 1 it is sqrt(4/3)
    values = [1.0, 1.0, -1.0, -1.0]
    assert grpo(tensor(values)).tolist() == pytest.approx(values, rel=1e-5)
    assert grpo(tensor(values), GroupRules(ddof=1)).tolist() == pytest.approx([v / math.sqrt(4 / 3) for v in values])
    assert grpo(tensor([1.0, 0.0, 0.0, 0.0]), GroupRules(norm="mean")).tolist() == [0.75, -0.25, -0.25, -0.25]


@given(outcomes)
def test_grpo_is_the_standard_score(values: list[float]) -> None:
    spread = statistics.pstdev(values)
    wanted = [(value - statistics.fmean(values)) / (spread + 1e-6) for value in values]
    assert grpo(tensor(values)).tolist() == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@given(outcomes)
def test_rloo_compares_each_with_the_others(values: list[float]) -> None:
    wanted = [v - statistics.fmean(values[:i] + values[i + 1 :]) for i, v in enumerate(values)]
    assert rloo(tensor(values)).tolist() == pytest.approx(wanted, abs=1e-9)


@given(outcomes, st.sampled_from([grpo, rloo]), st.randoms(use_true_random=False))
def test_a_groups_advantages_sum_to_nothing_and_follow_their_members(
    values: list[float], rule: Callable[[torch.Tensor], torch.Tensor], random: Random
) -> None:
    found = rule(tensor(values))
    assert float(found.sum()) == pytest.approx(0, abs=1e-6)
    order = list(range(len(values)))
    random.shuffle(order)
    again = rule(tensor([values[i] for i in order]))
    assert again.tolist() == pytest.approx([float(found[i]) for i in order], abs=1e-9)


@given(st.floats(-1, 1), st.integers(1, 6))
def test_members_that_all_fared_the_same_teach_nothing(value: float, count: int) -> None:
    group = tensor([value] * count)
    assert is_constant(group)
    assert grpo(group).abs().max() < 1e-6
    assert rloo(group).abs().max() < 1e-9


def test_one_member_alone_has_no_baseline() -> None:
    assert rloo(tensor([1.0])).tolist() == [0.0]
    assert grpo(tensor([1.0])).tolist() == [0.0]


def test_grpo_step_compares_the_same_step_of_each_member() -> None:
    # r = outcome + 0.5 s: step 0: 1.5, -1.0 → mean 0.25, deviation 1.25; step 1 only the first has: raw
    found = grpo_step(tensor([1.0, -1.0]), [[1.0, -1.0], [0.0]], GroupRules(step_weight=0.5))
    assert found[0] == pytest.approx([1.0, 0.5], rel=1e-5)
    assert found[1] == pytest.approx([-1.0], rel=1e-5)


def test_reinforce_pp_lets_each_token_pay_for_what_follows() -> None:
    old, reference = tensor([-1.0, -1.0, -1.0]), tensor([-1.5, -1.0, -2.0])
    found = reinforce_pp(Signals(1.0, old, reference=reference), Weights(beta=0.1))
    assert found.tolist() == pytest.approx([1 - 0.15, 1 - 0.1, 1 - 0.1])


def test_reinforce_pp_without_a_reference_is_refused() -> None:
    with pytest.raises(ValueError, match="reference"):
        reinforce_pp(Signals(1.0, tensor([-1.0])), Weights())


def test_whitening_counts_only_tokens_that_train() -> None:
    masks = [torch.tensor([True, False]), torch.tensor([True, True])]
    found = whitened([tensor([1.0, 99.0]), tensor([2.0, 3.0])], masks)
    spread = math.sqrt(2 / 3)
    assert found[0][0] == pytest.approx(-1 / spread)
    assert found[1].tolist() == pytest.approx([0.0, 1 / spread])


def test_whitening_a_batch_where_nothing_counts_changes_nothing() -> None:
    assert whitened([tensor([3.0])], [torch.tensor([False])])[0].tolist() == [3.0]


paths = st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=7)


@given(paths, st.floats(0, 1), st.floats(0, 1), st.floats(-1, 1))
def test_gae_is_the_discounted_sum_of_its_surprises(
    path: list[tuple[float, float]], gamma: float, lam: float, last: float
) -> None:
    rewards, values = zip(*path, strict=True)
    after = [*values[1:], last]
    surprise = [r + gamma * n - v for r, n, v in zip(rewards, after, values, strict=True)]
    wanted = [sum((gamma * lam) ** (i - t) * surprise[i] for i in range(t, len(path))) for t in range(len(path))]
    advantages, returns = gae(tensor(list(rewards)), tensor(list(values)), gamma, lam, last)
    assert advantages.tolist() == pytest.approx(wanted, abs=1e-9)
    assert returns.tolist() == pytest.approx([a + v for a, v in zip(wanted, values, strict=True)], abs=1e-9)


def test_the_hint_that_shares_most_candidates_is_taken_and_the_first_of_equals() -> None:
    student = torch.tensor([[1, 2], [3, 4]])
    foreign, near, also = torch.tensor([[5, 6], [3, 9]]), torch.tensor([[2, 1], [9, 4]]), torch.tensor([[1, 2], [4, 8]])
    assert [overlap(student, teacher) for teacher in (foreign, near, also)] == [1, 3, 3]
    assert closest_hint(student, [foreign, near, also]) == 1


def test_candidates_are_worth_what_the_teacher_adds_to_them() -> None:
    old, teacher = torch.tensor([[0.6, 0.2]]).log(), torch.tensor([[0.3, 0.8]]).log()
    # w = 0.75, 0.25; Δ = log 0.5, and log 4 clipped to 1
    assert candidate_advantages(old, teacher)[0].tolist() == pytest.approx([0.75 * math.log(0.5), 0.25], rel=1e-5)


def test_every_method_is_registered_under_its_name() -> None:
    names = ["binary", "opd", "combine", "opd_topk", "hybrid", "grpo", "grpo_step", "rloo", "reinforce_pp", "sft"]
    assert list(METHODS) == names
    assert [METHODS[name].name for name in names] == names
