"""The figures of an evaluation, held against values worked out by hand or elsewhere."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.judge.evaluation.figures import bins, calibration_error, kappa, resampled, share


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"), [(8, 10, 0.4902, 0.9433), (0, 5, 0.0, 0.4345), (5, 5, 0.5655, 1.0)]
)
def test_a_share_has_wilsons_interval(hits: int, of: int, low: float, high: float) -> None:
    found = share([True] * hits + [False] * (of - hits))
    assert (found.value, found.of) == (hits / of, of)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_a_share_of_nothing_is_no_figure() -> None:
    assert share([]).value is None


def test_kappa_is_agreement_beyond_chance() -> None:
    # 35 of 50 agree. Chance: yes 25/50 * 30/50, no 25/50 * 20/50, together 0.5. (0.7 - 0.5) / (1 - 0.5)
    pairs: list[tuple[object, object]] = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15
    assert kappa(pairs) == pytest.approx(0.4)
    assert kappa([(1, 1), (0, 0)]) == 1
    assert kappa([(1, 0), (0, 1)]) == -1


def test_kappa_says_nothing_where_nothing_could_differ() -> None:
    assert kappa([(0, 0), (0, 0)]) is None
    assert kappa([]) is None


def test_calibration_compares_confidence_with_the_share_that_is_right() -> None:
    # Four at 0.95, three right: 0.2 apart. Two at 0.6, one right: 0.1 apart. (4 * 0.2 + 2 * 0.1) / 6
    judgements = [(0.95, True)] * 3 + [(0.95, False), (0.6, True), (0.6, False)]
    assert calibration_error(judgements) == pytest.approx(1 / 6)
    assert [(one.low, one.high, one.count, one.right) for one in bins(judgements)] == [
        (0.5, 0.6, 2, 0.5),
        (0.9, 1.0, 4, 0.75),
    ]
    assert calibration_error([]) is None


@pytest.mark.parametrize(("confidence", "low"), [(0.0, 0.0), (0.1, 0.0), (0.3, 0.2), (0.31, 0.3), (1.0, 0.9)])
def test_a_bin_holds_its_upper_edge(confidence: float, low: float) -> None:
    assert [one.low for one in bins([(confidence, True)])] == [low]


def test_an_interval_by_resampling_is_the_same_for_the_same_seed() -> None:
    pairs: list[tuple[object, object]] = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15
    once, again = (resampled(pairs, kappa, random.Random(7)) for _ in range(2))
    assert once == again
    assert once.low is not None
    assert once.high is not None
    # The standard error of this kappa is about 0.13, so that 95% lie some 0.25 to either side.
    assert 0.1 < once.low < 0.25
    assert 0.55 < once.high < 0.7


def test_resampling_what_cannot_vary_gives_a_point_and_of_nothing_no_figure() -> None:
    certain = resampled([(1.0, True)] * 9, calibration_error, random.Random(0))
    assert (certain.value, certain.low, certain.high) == (0.0, 0.0, 0.0)
    assert resampled([], calibration_error, random.Random(0)).value is None


@given(st.lists(st.tuples(st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 0, 1, None])), min_size=1, max_size=40))
def test_figures_hold_for_any_verdicts(pairs: list[tuple[int, int | None]]) -> None:
    found = share([a == b for a, b in pairs])
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= 1
    agreement = kappa(pairs)
    assert agreement is None or -1 <= agreement <= 1
