"""gspo, cispo, sft, the corrections and the candidate losses: by hand, and against plain Python over random tokens."""

import math
from collections.abc import Callable
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.trainer.losses import ANCHORS, CORRECTIONS, LOSSES, Tokens, correction, objective, token_losses
from drivetrain.trainer.losses.clip import Clip
from drivetrain.trainer.losses.distill import candidate_loss, reverse_kl
from drivetrain.trainer.losses.gspo import sequence_clipped

LOG2 = math.log(2)
floats = st.floats(-4, 0)
TURN = st.lists(st.tuples(floats, floats, floats, st.floats(-3, 3), floats), min_size=1, max_size=8)


def plain_clip(ratio: float, advantage: float) -> float:
    loss = max(-advantage * ratio, -advantage * min(max(ratio, 0.8), 1.28))
    return min(loss, 3 * abs(advantage)) if advantage < 0 else loss


def plain_gspo(ratio: float, advantage: float) -> float:
    return max(-advantage * ratio, -advantage * min(max(ratio, 1 - 3e-4), 1 + 4e-4))


def columns(rows: list[tuple[float, ...]]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor(rows, dtype=torch.float64).T)


@given(TURN)
def test_clip_is_the_plain_formula_token_by_token(rows: list[tuple[float, ...]]) -> None:
    logp, old, mu, advantage, _ = columns(rows)
    found = token_losses(Tokens(logp, old, mu, advantage), objective("clip")).policy.tolist()
    wanted = [min(math.exp(o - m), 2.0) * plain_clip(math.exp(p - o), a) for p, o, m, a, _ in rows]
    assert found == pytest.approx(wanted, rel=1e-9)


@given(TURN)
def test_gspo_compares_whole_replies(rows: list[tuple[float, ...]]) -> None:
    logp, old, _, advantage, _ = columns(rows)
    found, _ = sequence_clipped(logp, old, advantage, Clip(3e-4, 4e-4))
    ratio = math.prod(math.exp(p - o) for p, o, *_ in rows) ** (1 / len(rows))
    wanted = sum(plain_gspo(ratio, a) for *_, a, _ in rows) / len(rows)
    assert float(found.sum()) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_gspos_gradient_is_the_sequence_ratio_over_its_length() -> None:
    logp = torch.tensor([-1.0, -1.0001], requires_grad=True)
    loss, cut = sequence_clipped(logp, torch.tensor([-1.0, -1.0]), torch.tensor([1.0, 1.0]), Clip(3e-4, 4e-4))
    loss.sum().backward()
    # s = exp(-0.00005), inside the clip: d loss / d logp_t = -A s / 2
    assert logp.grad is not None
    assert logp.grad.tolist() == pytest.approx([-math.exp(-5e-5) / 2] * 2)
    assert not cut.any()


def test_gspo_cuts_a_reply_that_left_its_narrow_range() -> None:
    logp = torch.tensor([-1.0, -1.0], requires_grad=True)
    loss, cut = sequence_clipped(logp, torch.tensor([-1.1, -1.1]), torch.tensor([1.0, -1.0]), Clip(3e-4, 4e-4))
    loss.sum().backward()
    assert cut.tolist() == [True, False]
    assert logp.grad is not None
    assert logp.grad.tolist() == pytest.approx([0.0, math.exp(0.1) / 2])


def test_cispo_caps_the_weight_and_keeps_the_gradient() -> None:
    logp = torch.tensor([math.log(8), math.log(0.25)], requires_grad=True)
    loss, cut = LOSSES["cispo"](cap=5.0)(logp, torch.zeros(2), torch.tensor([2.0, -1.0]))
    loss.sum().backward()
    # -min(ρ, 5) A: -5 · 2, and 0.25 · 1: no lower bound
    assert logp.grad is not None
    assert logp.grad.tolist() == pytest.approx([-10.0, 0.25])
    assert cut.tolist() == [True, False]


def test_sft_is_the_likelihood_whatever_the_engine_said() -> None:
    tokens = Tokens(*(torch.tensor(v) for v in ([-1.0, -2.0], [-1.0, -2.0], [math.nan, -9.0], [0.5, -7.0])))
    losses = token_losses(tokens, objective("sft", correct=correction("tis")))
    assert losses.policy.tolist() == [1.0, 2.0]
    assert losses.mask.tolist() == [True, True]


@pytest.mark.parametrize(
    ("name", "options", "weights"),
    [
        ("tis", {}, [0.25, 1.0, 2.0, 2.0]),
        ("tis", {"cap": 3.0}, [0.25, 1.0, 2.0, 3.0]),
        ("mis", {}, [0.25, 1.0, 2.0, 0.0]),
        ("mis", {"cap": 5.0}, [0.25, 1.0, 2.0, 4.0]),
        ("mis", {"level": "sequence"}, [2.0, 2.0, 2.0, 2.0]),  # 1/4 · 1 · 2 · 4 = 2
        ("mis", {"level": "sequence", "cap": 1.9}, [0.0, 0.0, 0.0, 0.0]),
        ("icepop", {}, [0.0, 1.0, 2.0, 4.0]),
        ("icepop", {"low": 0.2, "high": 2.0}, [0.25, 1.0, 2.0, 0.0]),
        ("none", {}, [1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_corrections_by_hand(name: str, options: dict[str, float | str], weights: list[float]) -> None:
    old = torch.tensor([-2 * LOG2, 0.0, LOG2, 2 * LOG2], dtype=torch.float64) - 1
    weigh = correction(name, **options)
    found = weigh(old, torch.full((4,), -1.0 + 1e-12, dtype=torch.float64))
    assert found.tolist() == pytest.approx(weights, rel=1e-6)


@given(TURN)
def test_no_correction_exceeds_its_bound_or_carries_a_gradient(rows: list[tuple[float, ...]]) -> None:
    _, old, mu, *_ = columns(rows)
    old.requires_grad_()
    for name in CORRECTIONS:
        weight = correction(name)(old, mu)
        assert not weight.requires_grad
        assert float(weight.max()) <= (5.0 if name == "icepop" else 2.0)
        assert float(weight.min()) >= 0


def test_bypass_compares_with_the_engine_and_corrects_nothing() -> None:
    tokens = Tokens(*(torch.tensor(v) for v in ([-1.0], [-1.0], [-1.0 - math.log(1.5)], [1.0])))
    losses = token_losses(tokens, objective("clip", bypass=True))
    assert float(losses.policy) == pytest.approx(-1.28)  # ρ = 1.5, clipped
    assert (float(losses.weight), float(losses.ratio), bool(losses.clipped)) == (1.0, pytest.approx(1.5), True)


@given(TURN, st.sampled_from(["clip", "gspo", "cispo"]))
def test_zero_advantage_is_zero_gradient(rows: list[tuple[float, ...]], name: str) -> None:
    logp, old, mu, _, _ = columns(rows)
    logp = logp.clone().requires_grad_()
    token_losses(Tokens(logp, old, mu, torch.zeros_like(old)), objective(name)).policy.sum().backward()
    assert logp.grad is not None
    assert not logp.grad.any()


@given(TURN, st.sampled_from(["clip", "gspo", "cispo"]), st.randoms(use_true_random=False))
def test_the_order_of_tokens_changes_no_sum(rows: list[tuple[float, ...]], name: str, random: Random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)

    def total(part: list[tuple[float, ...]]) -> float:
        logp, old, mu, advantage, reference = columns(part)
        losses = token_losses(Tokens(logp, old, mu, advantage, reference), objective(name))
        return float((losses.policy + losses.kl).sum())

    assert total(rows) == pytest.approx(total(shuffled), rel=1e-9, abs=1e-9)


@given(TURN)
def test_clips_gradient_is_bounded(rows: list[tuple[float, ...]]) -> None:
    """By |A| times the range's upper end for good tokens, times the dual clip for bad ones."""
    logp, old, _, advantage, _ = columns(rows)
    logp = logp.clone().requires_grad_()
    LOSSES["clip"]()(logp, old, advantage)[0].sum().backward()
    assert logp.grad is not None
    bound = torch.where(advantage < 0, 3.0, 1.28) * advantage.abs()
    assert bool((logp.grad.abs() <= bound + 1e-9).all())


@pytest.mark.parametrize(("name", "value"), [("k1", 2.0), ("k2", 2.0), ("k3", math.exp(-2) + 1)])
def test_anchors_by_hand(name: str, value: float) -> None:
    assert float(ANCHORS[name](torch.tensor([-1.0]), torch.tensor([-3.0]))) == pytest.approx(value)


def average_gradient(anchor: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> list[float]:
    """Of an anchor as a loss, over all tokens as the policy samples them."""
    logits = torch.tensor([0.3, -0.2, 1.0], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64).log()
    logp = logits.log_softmax(-1)
    (logp.detach().exp() * anchor(logp, reference)).sum().backward()
    assert logits.grad is not None
    values: list[float] = logits.grad.tolist()
    return values


def divergence_gradient(forward: bool) -> list[float]:
    logits = torch.tensor([0.3, -0.2, 1.0], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64).log()
    logp = logits.log_softmax(-1)
    first, second = (logp, reference) if forward else (reference, logp)
    (first.exp() * (first - second)).sum().backward()
    assert logits.grad is not None
    values: list[float] = logits.grad.tolist()
    return values


def test_which_divergence_each_anchor_pulls_down() -> None:
    assert average_gradient(ANCHORS["k2"]) == pytest.approx(divergence_gradient(forward=True))
    assert average_gradient(ANCHORS["k3"]) == pytest.approx(divergence_gradient(forward=False))
    assert average_gradient(ANCHORS["k1"]) == pytest.approx([0.0] * 3)


def test_candidates_are_clipped_one_by_one() -> None:
    old = torch.zeros(1, 3)
    logp = torch.tensor([[math.log(1.5), math.log(0.5), 0.0]], requires_grad=True)
    loss = candidate_loss(logp, old, torch.tensor([[0.5, -0.25, 1.0]]))
    # -0.5 · 1.28, max(0.25 · 0.5, 0.25 · 0.8), -1
    assert loss.tolist() == pytest.approx([-0.64 + 0.2 - 1.0])
    loss.sum().backward()
    assert logp.grad is not None
    assert logp.grad[0].tolist() == pytest.approx([0.0, 0.0, -1.0])


def test_reverse_kl_counts_all_other_tokens_as_one() -> None:
    student, teacher = torch.tensor([[0.5, 0.3]]).log(), torch.tensor([[0.6, 0.1]]).log()
    wanted = 0.5 * math.log(0.5 / 0.6) + 0.3 * math.log(0.3 / 0.1) + 0.2 * math.log(0.2 / 0.3)
    assert reverse_kl(student, teacher).tolist() == pytest.approx([wanted], rel=1e-5)


probabilities = st.lists(st.floats(0.01, 1), min_size=4, max_size=4).map(
    lambda values: torch.tensor(values, dtype=torch.float64) / sum(values)
)


@given(probabilities, probabilities)
def test_reverse_kl_is_never_negative_and_zero_between_equals(student: torch.Tensor, teacher: torch.Tensor) -> None:
    top = slice(0, 3)
    assert float(reverse_kl(student.log()[None, top], teacher.log()[None, top])) >= -1e-12
    assert float(reverse_kl(student.log()[None, top], student.log()[None, top])) == pytest.approx(0, abs=1e-12)
