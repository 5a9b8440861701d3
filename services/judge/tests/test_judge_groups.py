"""Which groups are due, what places are worth, and what an answer about a group must hold. Values by hand."""

import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.common.events import FinishReason, RolloutFinished, RolloutRef
from drivetrain.common.settings import BadSettings, resolve
from drivetrain.judge.ranking.groups import Ended, due, places_of, reward_of, shuffled
from drivetrain.judge.ranking.question import parse, schema_of
from drivetrain.judge.settings import JudgeSettings


def end(sequence: int, group: str, *, size: int = 2, at: float = 0.0, reason: FinishReason = "success") -> Ended:
    ref = RolloutRef(run="r", group=group, rollout=f"{group}{sequence}", group_size=size)
    event = RolloutFinished(
        rollout=ref, policy="p", session=f"s{sequence}", reason=reason, outcome=None, seconds=1.0, at=at
    )
    return Ended(sequence, event)


def numbers(groups: list[list[Ended]]) -> list[list[int]]:
    return [[member.sequence for member in group] for group in groups]


def test_the_last_end_of_a_group_makes_it_due_and_no_other() -> None:
    ends = [end(1, "g", size=3), end(2, "h"), end(5, "g", size=3), end(9, "g", size=3)]
    assert [numbers(due(sequence, ends, 100.0)) for sequence in (1, 5, 2)] == [[], [], []]
    assert numbers(due(9, ends, 100.0)) == [[1, 5, 9]]


def test_ends_in_any_order_make_a_group_due_once() -> None:
    ends = [end(number, "g", size=3) for number in (1, 2, 3)]
    for order in permutations(ends):
        assert [numbers(due(one.sequence, order, 9.0)) for one in ends] == [[], [], [[1, 2, 3]]]


def test_a_group_that_lacks_rollouts_is_due_once_its_run_went_on_for_long_enough() -> None:
    waiting, complete = [end(1, "g", size=3, at=10.0)], [end(2, "h", size=1, at=20.0)]
    soon, late = end(3, "i", at=109.0), end(4, "i", size=9, at=111.0)
    assert numbers(due(3, [*waiting, *complete, soon], 100.0)) == []
    assert numbers(due(4, [*waiting, *complete, soon, late], 100.0)) == [[1]]


def test_a_groups_own_late_end_does_not_cut_it_short() -> None:
    assert due(2, [end(1, "g", size=3, at=0.0), end(2, "g", size=3, at=1e6)], 100.0) == []


def test_equals_share_the_mean_of_their_places() -> None:
    assert places_of({"a": 1, "b": 2, "c": 3}) == {"a": 1, "b": 2, "c": 3}
    assert places_of({"a": 3, "b": 1, "c": 1, "d": 4}) == {"b": 1.5, "c": 1.5, "a": 3, "d": 4}
    assert places_of({"a": 2, "b": 2}) == {"a": 1.5, "b": 1.5}


def test_rewards_run_from_the_best_to_the_last() -> None:
    assert [reward_of(place, 5) for place in (1, 2, 3, 4, 5)] == [1, 0.5, 0, -0.5, -1]
    assert [reward_of(place, 2) for place in (1, 1.5, 2)] == [1, 0, -1]


@given(st.lists(st.integers(1, 9), min_size=2, max_size=9))
def test_rewards_are_in_range_centred_and_in_the_order_of_the_places(given: list[int]) -> None:
    places = places_of({str(number): place for number, place in enumerate(given)})
    rewards = [reward_of(places[str(number)], len(given)) for number in range(len(given))]
    assert sum(rewards) == pytest.approx(0, abs=1e-9)
    assert all(-1 <= reward <= 1 for reward in rewards)
    for one, first in zip(given, rewards, strict=True):
        assert all((one < other) == (first > second) for other, second in zip(given, rewards, strict=True))


def test_the_order_is_the_groups_own_whoever_asks_and_differs_over_groups() -> None:
    names = list("abcdef")
    assert shuffled(names, "r", "g") == shuffled(names[::-1], "r", "g")
    first = [shuffled(names, "r", f"g{number}")[0] for number in range(200)]
    assert all(20 <= first.count(name) <= 50 for name in names)  # 200 / 6 = 33, sd 5.3


SHOWN = {"A": '{"role": "assistant", "content": "rain is water"}', "B": '{"role": "assistant", "content": "no idea"}'}


def answer(**places: tuple[str, float]) -> str:
    return json.dumps({label: {"evidence": place[0], "place": place[1]} for label, place in places.items()})


def test_an_answer_places_every_attempt() -> None:
    found = parse(answer(A=("rain is water", 1), B=("No idea.", 1)), SHOWN)
    assert found is not None
    assert {label: one.place for label, one in found.items()} == {"A": 1, "B": 1}


@pytest.mark.parametrize(
    "text",
    [
        answer(A=("water", 1)),
        answer(A=("water", 1), B=("no idea", 2), C=("water", 3)),
        answer(A=("water", 0), B=("no idea", 2)),
        answer(A=("water", 1), B=("no idea", 3)),
        answer(A=("water", 1.5), B=("no idea", 2)),
        answer(A=("no idea", 1), B=("no idea", 2)),
        answer(A=("", 1), B=("no idea", 2)),
        "A is better than B",
        "[]",
        '{"A": 1, "B": 2}',
    ],
)
def test_any_other_answer_is_none(text: str) -> None:
    assert parse(text, SHOWN) is None


def test_the_schema_asks_for_every_attempt() -> None:
    schema = schema_of(("A", "B", "C"))["schema"]
    assert schema["required"] == ["A", "B", "C"]
    assert schema["properties"]["B"]["properties"]["place"]["enum"] == [1, 2, 3]
    assert schema["additionalProperties"] is False


def test_what_ranks_needs_a_model_and_a_place_for_outcomes() -> None:
    with pytest.raises(BadSettings, match=r"set model\.enabled"):
        resolve(JudgeSettings, "judge", ["--ranking.enabled", "true"], {})
    model = ["--model.enabled", "1", "--model.url", "http://x/v1", "--model.model", "m", "--ranking.enabled", "1"]
    with pytest.raises(BadSettings, match="place for outcome"):
        resolve(JudgeSettings, "judge", [*model, "--precedence", '["model"]'], {})
