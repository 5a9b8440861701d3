"""Rubrics: what a file may hold, what a model is asked, and how its verdicts become one reward. Values by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.common.events import TurnScored, Vote, decode, encode
from drivetrain.common.settings import BadSettings, resolve
from drivetrain.judge import joins
from drivetrain.judge.app import arranged
from drivetrain.judge.chain import Chain
from drivetrain.judge.rubric import BadRubric, Criterion, Rubric, load_rubric, weighted_mean
from drivetrain.judge.settings import JudgeSettings
from drivetrain.judge.sources.base import Case, NoScore
from drivetrain.judge.sources.feedback import Feedback
from drivetrain.judge.sources.reaction import Reaction
from drivetrain.judge.sources.rubric import RubricJudge
from tests.judge_model_server import Say, asked
from tests.judge_world import feedback, followed

FILE = """
[[criteria]]
name = "answers"
text = "The reply answers what was asked."
weight = 3.0

[[criteria]]
name = "plain"
text = "It is written in plain words."
"""
RUBRIC = Rubric((Criterion("answers", "The reply answers what was asked.", 3.0), Criterion("plain", "Plain words.")))
CASE = Case(
    ({"role": "user", "content": "What is rain?"},),
    {"role": "assistant", "content": "Precipitation, i.e. water that falls."},
    policy="writer",
)


def verdicts(**answers: str) -> str:
    """A vote with these answers, each with a quotation."""
    return json.dumps({name: {"answer": answer, "evidence": "water that falls"} for name, answer in answers.items()})


async def judged(say: Say, case: Case = CASE, **settings: Any) -> tuple[tuple[Vote, ...], list[dict[str, Any]]]:
    async with asked(say, **settings) as (asker, seen):
        return (await RubricJudge(asker, {"writer": RUBRIC}).judge(case)).votes, seen


def test_a_file_holds_criteria_with_weights(tmp_path: Path) -> None:
    (path := tmp_path / "writer.toml").write_text(FILE)
    rubric = load_rubric(path)
    assert [(c.name, c.weight) for c in rubric.criteria] == [("answers", 3.0), ("plain", 1.0)]
    assert rubric.criteria[0].text == "The reply answers what was asked."


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (FILE + 'colour = "blue"\n', "colour"),
        ('title = "x"\n' + FILE, "title"),
        (FILE.replace("weight = 3.0", "weight = 0"), "weight"),
        (FILE.replace("weight = 3.0", "weight = nan"), "weight"),
        (FILE.replace("weight = 3.0", 'weight = "high"'), "weight"),
        (FILE.replace('"plain"', '"answers"'), "'answers': name each once"),
        (FILE.replace('"plain"', '"Plain words"'), "name"),
        ('[[criteria]]\nname = "a"\n', "text"),
        ("criteria = []\n", "criteria"),
        ("criteria = [\n", "TOML"),
        ("", "criteria"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_name_and_key(tmp_path: Path, content: str, named: str) -> None:
    (path := tmp_path / "writer.toml").write_text(content)
    with pytest.raises(BadRubric, match=named) as refused:
        load_rubric(path)
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRubric, match="No such file"):
        load_rubric(tmp_path / "none.toml")
    (path := tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadRubric, match="not a TOML file"):
        load_rubric(path)


async def test_a_vote_is_the_weighted_mean_of_its_criteria_with_their_evidence() -> None:
    votes, seen = await judged(lambda body: verdicts(answers="met", plain="missed"), votes=1)
    (vote,) = votes
    assert vote.value == (3 * 1 + 1 * -1) / 4
    assert [(v.criterion, v.value, v.weight, v.evidence) for v in vote.criteria] == [
        ("answers", 1.0, 3.0, "water that falls"),
        ("plain", -1.0, 1.0, "water that falls"),
    ]
    assert vote.evidence == "answers: water that falls"
    schema = seen[0]["response_format"]["json_schema"]["schema"]
    assert (schema["required"], schema["additionalProperties"]) == (["answers", "plain"], False)
    assert "plain: Plain words." in seen[0]["messages"][0]["content"]


async def test_a_criterion_that_does_not_apply_is_left_out_and_none_is_no_vote() -> None:
    votes, _ = await judged(lambda body: verdicts(answers="not_applicable", plain="partly"), votes=1)
    assert [(vote.value, [v.value for v in vote.criteria]) for vote in votes] == [(0.0, [None, 0.0])]
    none, _ = await judged(lambda body: verdicts(answers="not_applicable", plain="not_applicable"), votes=1)
    assert none == ()


async def test_the_reward_is_the_mean_of_the_votes_and_sure_as_they_agree() -> None:
    given = ["met", "met", "missed"]
    async with asked(lambda body: verdicts(answers=given[body["seed"]], plain="met")) as (asker, _):
        judgement = await Chain([RubricJudge(asker, {"writer": RUBRIC}), Reaction()]).judge(CASE)
    assert judgement.reward == pytest.approx((1 + 1 + (-3 + 1) / 4) / 3)
    assert (judgement.decided_by, len(judgement.votes)) == ("rubric", 3)
    assert {vote.confidence for vote in judgement.votes} == {1 - (1 - -0.5) / 2}


async def test_it_decides_with_a_zero_too_and_feedback_is_stronger() -> None:
    said = Case(CASE.before, CASE.reply, ({"role": "user", "content": "Thanks!"},), policy="writer")
    async with asked(lambda body: verdicts(answers="partly", plain="partly")) as (asker, seen):
        chain = Chain([Feedback(), RubricJudge(asker, {"writer": RUBRIC}), Reaction()])
        assert (await chain.judge(said)).reward == 0.0
        told = Case(CASE.before, CASE.reply, signals=(feedback("f", value=-1),), policy="writer")
        assert (await chain.judge(told)).reward == -1
    assert len(seen) == 3  # nothing was asked about what feedback had settled


@pytest.mark.parametrize(
    "answer",
    [
        verdicts(answers="met"),
        verdicts(answers="met", plain="met", other="met"),
        verdicts(answers="met", plain="excellent"),
        verdicts(answers="met", plain="met").replace("water", "snow", 1),
        verdicts(answers="met", plain="met").replace(', "evidence": "water that falls"', "", 1),
        "I think that it meets both.",
        '{"answers": {"answer": "met", "evid',
        "",
    ],
)  # fmt: skip
async def test_what_is_not_a_whole_vote_is_none_and_nothing_is_guessed(answer: str) -> None:
    with pytest.raises(NoScore):
        await judged(lambda body: answer)
    good = verdicts(answers="met", plain="met")
    votes, _ = await judged(lambda body: answer if body["seed"] == 0 else good)
    assert [vote.value for vote in votes] == [1.0, 1.0]


async def test_another_policys_replies_are_not_asked_about() -> None:
    votes, seen = await judged(lambda body: "", Case(CASE.before, CASE.reply, policy="other"))
    assert (votes, seen) == ((), [])


def test_a_next_state_says_whose_policy_it_is() -> None:
    assert joins.case_of(followed("t", policy="writer")).policy == "writer"


async def test_the_settings_name_a_rubric_for_a_policy(tmp_path: Path) -> None:
    (path := tmp_path / "writer.toml").write_text(FILE)
    model = ["--model.enabled", "1", "--model.url", "http://x/v1", "--model.model", "m"]
    settings = resolve(JudgeSettings, "judge", [*model, "--rubrics", json.dumps({"writer": str(path)})], {})
    async with asked(lambda body: "") as (asker, _):
        assert [source.name for source in arranged(settings, asker)][3:] == ["rubric", "model", "reaction"]
    with pytest.raises(BadSettings, match=r"set model\.enabled"):
        resolve(JudgeSettings, "judge", ["--rubrics", '{"writer": "x.toml"}'], {})
    flags = [*model, "--rubrics", '{"writer": "x.toml"}', "--precedence", '["model"]']
    with pytest.raises(BadSettings, match="place for rubric"):
        resolve(JudgeSettings, "judge", flags, {})


async def test_the_verdicts_travel_with_the_score() -> None:
    (vote,), _ = await judged(lambda body: verdicts(answers="met", plain="missed"), votes=1)
    score = TurnScored(
        tenant="t", policy="writer", session="s", turn="t", n=0, judge="j", reward=0.5, votes=[vote], hints=[], at=1.0
    )
    assert decode(encode(score), TurnScored).votes == [vote]


@given(st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 1.0, None]), st.floats(0.001, 1000)), max_size=20))
def test_a_weighted_mean_stays_in_range_and_comes_from_something(values: list[tuple[float | None, float]]) -> None:
    mean = weighted_mean(values)
    assert (mean is None) == all(value is None for value, _ in values)
    assert mean is None or -1 <= mean <= 1
