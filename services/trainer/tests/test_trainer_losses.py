"""Losses against values worked out by hand, and that splitting a batch changes nothing."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.trainer.losses import ANCHORS, CORRECTIONS, Clip, Tokens, none, objective, token_losses
from drivetrain.trainer.losses.anchor import k2, k3
from drivetrain.trainer.losses.clip import clipped as clipped_policy_loss

TIS = objective("clip")


def policy_loss(ratio: float, advantage: float) -> tuple[float, bool]:
    loss, clipped = clipped_policy_loss(
        torch.tensor([math.log(ratio)]), torch.tensor([0.0]), torch.tensor([advantage]), Clip()
    )
    return round(float(loss), 5), bool(clipped)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "clipped"),
    [
        (1.0, 2.0, -2.0, False),
        (1.2, 1.0, -1.2, False),
        (1.5, 1.0, -1.28, True),  # capped above at 1 + 0.28
        (0.5, 1.0, -0.5, False),  # a good token may always come back
        (0.9, -1.0, 0.9, False),
        (0.5, -1.0, 0.8, True),  # no reward for going below 1 - 0.2
        (2.0, -1.0, 2.0, False),  # a bad token that became likelier is pushed down in full ...
        (5.0, -1.0, 3.0, True),  # ... up to dual clip 3
        (5.0, -2.0, 6.0, True),
    ],
)
def test_clipped_policy_loss(ratio: float, advantage: float, loss: float, clipped: bool) -> None:
    assert policy_loss(ratio, advantage) == (pytest.approx(loss), clipped)


def test_a_clipped_token_has_no_gradient() -> None:
    logp = torch.tensor([math.log(1.5), math.log(1.1)], requires_grad=True)
    loss, _ = clipped_policy_loss(logp, torch.zeros(2), torch.ones(2), Clip())
    loss.sum().backward()
    assert logp.grad is not None
    assert logp.grad.tolist() == pytest.approx([0.0, -1.1])


def test_tis_is_the_ratio_up_to_its_cap() -> None:
    old, mu = torch.tensor([-1.0, -1.0, -1.0]), torch.tensor([-1.0, -1.0 + math.log(2), -1.0 - math.log(4)])
    assert CORRECTIONS["tis"](old, mu, 2.0).tolist() == pytest.approx([1.0, 0.5, 2.0])
    assert CORRECTIONS["none"](old, mu).tolist() == [1.0, 1.0, 1.0]


def test_the_correction_carries_no_gradient() -> None:
    old = torch.tensor([-1.0], requires_grad=True)
    assert not CORRECTIONS["tis"](old, torch.tensor([-2.0]), 2.0).requires_grad


def test_k3_values_and_clamp() -> None:
    logp = torch.tensor([-1.0, -2.0, -30.0])
    reference = torch.tensor([-1.0, -1.0, -1.0])
    expected = [0.0, math.e - 2, math.exp(10) - 11]
    assert k3(logp, reference).tolist() == pytest.approx(expected, rel=1e-5)


@given(st.floats(-9, 9), st.floats(-9, 0))
def test_k3_is_never_negative(d: float, logp: float) -> None:
    assert float(k3(torch.tensor([logp]), torch.tensor([logp + d]))) >= -1e-6


def test_the_gradient_of_k3_is_one_minus_the_ratio() -> None:
    logp = torch.tensor([-2.0], requires_grad=True)
    k3(logp, torch.tensor([-1.5])).sum().backward()
    assert logp.grad is not None
    assert float(logp.grad) == pytest.approx(1 - math.exp(0.5), rel=1e-5)


def test_a_token_without_an_engine_logprob_is_masked_out() -> None:
    tokens = Tokens(
        logp=torch.tensor([-1.0, -1.0]),
        old=torch.tensor([-1.0, -1.0]),
        mu=torch.tensor([-1.0, math.nan]),
        advantage=torch.tensor([1.0, 1.0]),
        reference=torch.tensor([-2.0, -2.0]),
    )
    losses = token_losses(tokens, TIS)
    assert losses.policy.tolist() == [-1.0, 0.0]
    assert losses.kl.tolist() == pytest.approx([math.exp(-1), 0.0])
    assert losses.mask.tolist() == [True, False]


def test_the_correction_weighs_the_anchor_too() -> None:
    half = Tokens(*(torch.tensor([v]) for v in (-1.0, -1.0, -1.0 + math.log(2), 1.0, -2.0)))
    losses = token_losses(half, TIS)
    assert float(losses.policy) == pytest.approx(-0.5)
    assert float(losses.kl) == pytest.approx(0.5 * math.exp(-1))


def test_without_a_reference_there_is_no_anchor() -> None:
    tokens = Tokens(*(torch.tensor([-1.0]) for _ in range(4)))
    assert token_losses(tokens, objective("clip", correct=none)).kl.tolist() == [0.0]


values = st.lists(
    st.tuples(st.floats(-5, 0), st.floats(-5, 0), st.floats(-5, 0), st.floats(-3, 3), st.floats(-5, 0)),
    min_size=2,
    max_size=12,
)


@given(values, st.data())
def test_splitting_a_response_changes_no_sum(rows: list[tuple[float, ...]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(rows) - 1))

    def total(part: list[tuple[float, ...]]) -> float:
        logp, old, mu, advantage, reference = torch.tensor(part).T
        losses = token_losses(Tokens(logp, old, mu, advantage, reference), TIS)
        return float((losses.policy + 0.1 * losses.kl).double().sum())

    assert total(rows) == pytest.approx(total(rows[:cut]) + total(rows[cut:]), rel=1e-4, abs=1e-4)


def test_k2_values_and_clamp() -> None:
    logp, reference = torch.tensor([-1.0, -1.0, -30.0]), torch.tensor([-1.0, -4.0, -1.0])
    # d = 0, -3 and 29, which is clamped to 10
    assert k2(logp, reference).tolist() == pytest.approx([0.0, 4.5, 50.0])


def test_k2_pulls_the_harder_the_less_the_reference_would_say_a_token() -> None:
    logp = torch.tensor([-1.0, -1.0], requires_grad=True)
    k2(logp, torch.tensor([-2.0, -6.0])).sum().backward()
    # the gradient of d²/2 in log π is -d: with d = -1 and -5 both tokens are pushed down, the second five times as hard
    assert logp.grad is not None
    assert logp.grad.tolist() == pytest.approx([1.0, 5.0])


def test_the_anchor_is_chosen_by_name() -> None:
    same = torch.tensor([-1.0])
    tokens = Tokens(same, same, same, torch.tensor([0.0]), reference=torch.tensor([-3.0]))
    losses = {
        name: token_losses(tokens, objective("clip", correct=none, anchor=anchor)) for name, anchor in ANCHORS.items()
    }
    # d = -2: e^-2 + 2 - 1 and 4 / 2
    assert {name: float(loss.kl) for name, loss in losses.items()} == pytest.approx(
        {"k1": 2.0, "k3": 1.1353353, "k2": 2.0}
    )
