"""How votes become a reward, and how an outcome is credited. The values are worked out by hand."""

from contextlib import AsyncExitStack
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.common.events import Signal, Vote
from drivetrain.common.settings import BadSettings, resolve
from drivetrain.judge.app import sources
from drivetrain.judge.chain import Chain
from drivetrain.judge.settings import SOURCES, JudgeSettings
from drivetrain.judge.sources.base import Case, NoScore, Opinion, Source
from drivetrain.judge.sources.environment import Environment
from drivetrain.judge.sources.feedback import Feedback
from drivetrain.judge.sources.model import ModelJudge
from drivetrain.judge.sources.outcome import Outcome
from drivetrain.judge.sources.reaction import Reaction
from drivetrain.judge.votes import combine, enough, majority, settled


class Model(Source):
    """Says what it is told to, at a price."""

    name = "model"
    costly = True
    within = staticmethod(majority)

    def __init__(self, *values: float, fails: bool = False) -> None:
        self.values, self.fails, self.asked = values, fails, 0

    async def judge(self, case: Case) -> Opinion:
        self.asked += 1
        if self.fails:
            raise NoScore("down")
        return Opinion(tuple(vote("model", value) for value in self.values))


RANKED: list[Source] = [Feedback(), Outcome(), Environment(), Model(), Reaction()]
NAMES = [source.name for source in RANKED]


def vote(source: str, value: float, weight: float = 1.0) -> Vote:
    return Vote(source=source, value=value, weight=weight, evidence="seen")


def outcome(value: float | None) -> Signal:
    return Signal(kind="outcome", tenant="acme", policy="p", session="s", id="o", value=value, reason="success", at=9.0)


def case(*after: str, later: int = 0, value: float | None = None) -> Case:
    """A turn after which tools returned these texts; with the outcome of its rollout, if there is one."""
    results = tuple({"role": "tool", "tool_call_id": "c", "content": text} for text in after)
    return Case((), {"role": "assistant"}, results, signals=() if value is None else (outcome(value),), later=later)


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


async def chosen(**values: Any) -> list[Source]:
    async with AsyncExitStack() as stack:
        found, _ = await sources(JudgeSettings.model_validate(values), stack)
    return found


async def test_the_settings_name_the_precedence() -> None:
    model = {"enabled": True, "url": "http://127.0.0.1:1/v1", "model": "m"}
    without_rubrics = [name for name in SOURCES if name != "rubric"]
    assert [source.name for source in await chosen(model=model)] == without_rubrics
    assert isinstance((await chosen(model=model))[3], ModelJudge)
    assert [source.name for source in await chosen()] == [name for name in without_rubrics if name != "model"]
    swapped = await chosen(precedence=["reaction", "environment"])
    assert [source.name for source in swapped] == ["reaction", "environment"]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (
            ["--precedence", '["feedback", "astrology"]'],
            "unknown source 'astrology': the sources are feedback, outcome",
        ),
        (["--precedence", '["feedback", "feedback"]'], "once"),
        (["--precedence", "[]"], "at least one"),
        (["--outcome.credit", "halved"], r"outcome\.credit"),
        (["--outcome.gamma", "1.5"], r"outcome\.gamma"),
        (["--environment.recovery", "2"], r"environment\.recovery"),
        (
            [
                "--precedence",
                '["reaction"]',
                "--model.enabled",
                "1",
                "--model.url",
                "http://x/v1",
                "--model.model",
                "m",
            ],
            "place for model in precedence",
        ),
    ],
)
def test_a_precedence_or_credit_that_cannot_work_is_refused(flags: list[str], named: str) -> None:
    with pytest.raises(BadSettings, match=named):
        resolve(JudgeSettings, "judge", flags, {})


FAILED, FINE = "Exit code 1\nboom", "fine"


@pytest.mark.parametrize(
    ("credit", "turn", "reward"),
    [
        ({}, case(value=0.5), 0.5),
        ({}, case(FAILED, value=0.5, later=7), 0.5),
        ({"credit": "uniform", "gamma": 0.5}, case(value=0.5, later=3), 0.5),
        ({"credit": "discounted", "gamma": 0.5}, case(value=1, later=0), 1.0),
        ({"credit": "discounted", "gamma": 0.5}, case(value=1, later=3), 0.125),
        ({"credit": "discounted", "gamma": 0.9}, case(FAILED, value=-1, later=2), -0.81),
        ({"credit": "step", "coef": 0.2}, case(value=1), 1.0),
        ({"credit": "step", "coef": 0.2}, case(FAILED, value=1), 0.8),
        ({"credit": "step", "coef": 0.2}, case(FAILED, FINE, value=1), 0.9),
        ({"credit": "step", "coef": 0.5}, case(FAILED, FINE, FINE, FINE, value=-1), -1.125),
        ({"credit": "step", "coef": 0.5}, case(FAILED, value=0), -0.5),
        ({"credit": "step", "coef": 0.5}, case(FAILED), -1.0),
    ],
)
async def test_an_outcome_is_credited_as_the_settings_say(credit: dict[str, Any], turn: Case, reward: float) -> None:
    judgement = await Chain(await chosen(outcome=credit)).judge(turn)
    assert judgement.reward == pytest.approx(reward, abs=1e-12)


async def test_the_votes_of_a_model_count_in_the_step_too() -> None:
    model = Model(1, 1, -1)
    step = await Chain([Outcome(coef=0.6), Environment(), model]).judge(case(FINE, value=0.5))
    assert (step.reward, model.asked) == (pytest.approx(0.5 + 0.6 * (0 + 1 + 1 - 1) / 4), 1)
    uniform = await Chain([Outcome(), Environment(), model]).judge(case(FINE, value=0.5))
    assert (uniform.reward, model.asked) == (0.5, 1)
    alone = await Chain([Outcome(coef=0.6), Model(fails=True)]).judge(case(FINE, value=0.5))
    assert (alone.reward, alone.failed) == (0.5, "model")


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
