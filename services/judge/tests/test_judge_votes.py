"""How votes become a reward, and how an outcome is credited. The values are worked out by hand."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.judge.chain import Chain
from drivetrain.judge.sources.base import Source
from drivetrain.judge.sources.environment import Environment
from drivetrain.judge.sources.feedback import Feedback
from drivetrain.judge.sources.outcome import Outcome
from drivetrain.judge.sources.reaction import Reaction
from drivetrain.judge.votes import combine, enough, majority, settled
from tests.judge_votes import Model, vote

RANKED: list[Source] = [Feedback(), Outcome(), Environment(), Model(), Reaction()]
NAMES = [source.name for source in RANKED]


@pytest.mark.parametrize(
    ("votes", "reward", "by"),
    [
        ([], None, None),
        ([("reaction", 0)], 0.0, None),
        ([("reaction", -1)], -1, "reaction"),
        ([("environment", 0), ("reaction", -1)], -1, "reaction"),
        ([("environment", -1), ("reaction", 1)], -1, "environment"),
        ([("environment", 1), ("environment", -1), ("environment", 0)], -1, "environment"),
        ([("environment", 0), ("environment", 1)], 1, "environment"),
        ([("model", 1), ("reaction", -1)], 1, "model"),
        ([("model", 0), ("reaction", -1)], -1, "reaction"),
        ([("outcome", 0.25), ("environment", -1)], 0.25, "outcome"),
        ([("outcome", 0), ("environment", -1)], 0, "outcome"),
        ([("feedback", 0), ("outcome", 1), ("reaction", -1)], 0, "feedback"),
        ([("feedback", 1), ("feedback", -0.5)], -0.5, "feedback"),
    ],
)
def test_precedence(votes: list[tuple[str, float]], reward: float | None, by: str | None) -> None:
    combined = combine([vote(*each) for each in votes], RANKED)
    assert (combined.reward, combined.decided_by) == (reward, by)


def test_a_failed_source_leaves_the_turn_unresolved_unless_a_stronger_one_decided() -> None:
    assert combine([vote("reaction", -1)], RANKED, silent="model").reward is None
    assert combine([vote("environment", 0), vote("reaction", 1)], RANKED, silent="model").reward is None
    assert combine([vote("environment", -1), vote("reaction", 1)], RANKED, silent="model").reward == -1


def test_a_costly_source_is_not_needed_once_a_stronger_one_decided() -> None:
    assert settled([vote("feedback", 0)], RANKED[:3])
    assert settled([vote("environment", -1)], RANKED[:3])
    assert not settled([vote("environment", 0), vote("reaction", -1)], RANKED[:3])
    assert not settled([vote("outcome", 1)], [Outcome(coef=0.5)])


def test_the_order_of_the_sources_is_their_precedence() -> None:
    votes = [vote("environment", -1), vote("reaction", 1)]
    assert combine(votes, [Environment(), Reaction()]).reward == -1
    assert combine(votes, [Reaction(), Environment()]).reward == 1
    with pytest.raises(ValueError, match="name of its own"):
        Chain([Reaction(), Reaction()])


def test_a_vote_counts_for_the_share_that_is_credited() -> None:
    assert combine([vote("environment", 1, weight=0.25)], RANKED).reward == 0.25
    assert combine([vote("environment", 1, 0.25), vote("environment", -1)], RANKED).reward == -1


@pytest.mark.parametrize(
    ("values", "winner"), [([1, 1, -1], 1), ([1, -1], 0), ([1, 0, -1], 0), ([0, 0, 1], 0), ([-1], -1), ([], 0)]
)
def test_majority(values: list[float], winner: float) -> None:
    assert majority(values) == winner


def test_half_of_the_votes_rounded_up_make_a_score() -> None:
    counted = [(asked, valid) for asked, valid in product((1, 3, 5), range(6)) if enough(valid, asked)]
    assert min(valid for asked, valid in counted if asked == 1) == 1
    assert min(valid for asked, valid in counted if asked == 3) == 2
    assert min(valid for asked, valid in counted if asked == 5) == 3


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.floats(-1, 1))))
def test_a_reward_is_in_range_and_never_from_nothing(votes: list[tuple[str, float]]) -> None:
    combined = combine([vote(*each) for each in votes], RANKED)
    assert (combined.reward is None) == (not votes)
    assert combined.reward is None or -1 <= combined.reward <= 1
