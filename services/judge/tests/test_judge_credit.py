"""The settings of precedence and credit, and what an outcome is worth to a turn. Values by hand."""

from contextlib import AsyncExitStack
from typing import Any

import pytest

from drivetrain.common.settings import BadSettings, resolve
from drivetrain.judge.app import sources
from drivetrain.judge.chain import Chain
from drivetrain.judge.settings import SOURCES, JudgeSettings
from drivetrain.judge.sources.base import Case, Source
from drivetrain.judge.sources.environment import Environment
from drivetrain.judge.sources.model import ModelJudge
from drivetrain.judge.sources.outcome import Outcome
from tests.judge_votes import Model, case


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
