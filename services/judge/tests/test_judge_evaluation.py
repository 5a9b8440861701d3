"""What `drivetrain judge eval` counts, worked out by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from drivetrain.common.events import Vote
from drivetrain.judge.chain import Chain, Judgement
from drivetrain.judge.evaluation import command
from drivetrain.judge.evaluation.labelled import BadSet, read
from drivetrain.judge.evaluation.measure import judged, measure
from drivetrain.judge.evaluation.report import Cost, Report, confusion, report
from drivetrain.judge.evaluation.table import table
from drivetrain.judge.settings import JudgeSettings
from drivetrain.judge.sources.base import Case, NoScore, Opinion, Source
from drivetrain.judge.sources.environment import Environment
from tests.judge_labelled import LINE, file_of, labelled, result


def sample() -> Report:
    results = [
        result(1, 1, confidence=0.9, id="a"),
        result(1, 0, id="b", language="zh"),
        result(-1, -1, confidence=0.7, id="c", hint="Say less.", hints=("Be brief, please.",), domain="swe"),
        result(-1, 1, confidence=0.9, id="d", clear=False, hint="Say more.", hints=("Be brief, please.",)),
        result(0, 0, id="e", domain="swe"),
        result(0, None, id="f", domain="swe"),
        result(0, -1, confidence=0.7, id="g", hints=("Be brief, please.",)),
    ]
    return report("rules", results, Cost(seconds_per_turn=0.002), seed=1)


def test_a_report_counts_what_it_says() -> None:
    total = sample().total
    assert (total.turns, total.accuracy.value) == (7, pytest.approx(3 / 7))
    assert (total.clear.value, total.clear.of) == (pytest.approx(2 / 3), 3)
    assert (total.silent.value, total.silent.of) == (pytest.approx(2 / 3), 3)
    assert (total.spoken.value, total.spoken.of) == (pytest.approx(2 / 4), 4)
    assert (total.coverage.value, total.coverage.of) == (pytest.approx(6 / 7), 7)


def test_a_report_tells_domains_and_languages_apart() -> None:
    found = sample()
    assert {name: part.turns for name, part in found.domains.items()} == {"chat": 4, "swe": 3}
    assert {name: part.turns for name, part in found.languages.items()} == {"en": 6, "zh": 1}
    assert found.domains["swe"].accuracy.value == pytest.approx(2 / 3)
    assert found.languages["zh"].spoken.value is None


def test_a_turn_without_a_score_has_a_column_of_its_own() -> None:
    assert sample().confusion == {
        "-1": {"-1": 1, "0": 0, "+1": 1, "no score": 0},
        "0": {"-1": 1, "0": 1, "+1": 0, "no score": 1},
        "+1": {"-1": 0, "0": 1, "+1": 1, "no score": 0},
    }
    assert confusion([])["0"]["no score"] == 0


def test_a_report_weighs_confidence_and_hints() -> None:
    found = sample()
    # At 0.9 one of two is right, at 0.7 one of two: (2 * 0.4 + 2 * 0.2) / 4
    assert found.calibration_error.value == pytest.approx(0.3)
    assert (found.hinted.value, found.hinted.of) == (1.0, 2)
    assert found.hints_amiss.value == pytest.approx(1 / 3)


def test_the_table_shows_every_part() -> None:
    text = table(sample())
    for part in ("7 labelled turns", "0.429", "swe", "zh", "label +1", "0.6 to 0.7", "2.00 ms", "no model asked"):
        assert part in text
    asked = table(report("m", [result(1, 1)], Cost(seconds_per_turn=1, model_calls=3, prompt_tokens=70, spend=0.5), 0))
    assert "3 calls of a model, 70 + 0 tokens, price 0.5000" in asked


def test_the_confidence_of_a_verdict_is_that_of_the_votes_behind_it() -> None:
    votes = tuple(
        Vote(source=source, value=value, evidence="e", confidence=confidence)
        for source, value, confidence in (("environment", -1, 0.8), ("environment", 0, 0.2), ("reaction", -1, 0.1))
    )
    seen = judged(labelled(), Judgement(-0.5, votes, (), "environment"), 0.25)
    assert (seen.verdict, seen.confidence, seen.seconds) == (-1, 0.8, 0.25)
    silent = judged(labelled(), Judgement(0.0, votes, (), None), 0.0)
    assert (silent.verdict, silent.confidence) == (0, None)
    assert judged(labelled(), Judgement(None, (), (), None, "model"), 0.0).verdict is None


class Broken(Source):
    name = "model"
    costly = True

    async def judge(self, case: Case) -> Opinion:
        raise NoScore("down")


async def test_turns_are_judged_in_order_by_the_chain_itself() -> None:
    failed = {"role": "tool", "tool_call_id": "c", "content": "FAILED test_a\n1 failed in 0.10s"}
    passed = {"role": "tool", "tool_call_id": "c", "content": "1 passed in 0.10s"}
    call = {"role": "assistant", "content": "again"}
    turns = [
        labelled(id="red", next=[failed]),
        labelled(id="green", conversation=[call, failed, call, passed, call], next=[passed]),
        labelled(id="green after red", conversation=[call, failed, call], next=[passed]),
    ]
    seen = await measure(Chain([Environment()]), turns, 2, lambda: 0.0)
    assert [(one.turn.id, one.verdict) for one in seen] == [("red", -1), ("green", 0), ("green after red", 1)]
    lost = await measure(Chain([Broken()]), turns[:1], 1, lambda: 0.0)
    assert [one.verdict for one in lost] == [None]


def test_a_case_is_cut_as_the_service_cuts_it() -> None:
    conversation = [{"role": role, "content": str(n)} for n, role in enumerate(("user", "assistant", "tool", "user"))]
    turn = labelled(conversation=conversation)
    assert [m["content"] for m in turn.case(with_history=False).before] == ["2", "3"]
    assert turn.case(with_history=False).history == ()
    assert [m["content"] for m in turn.case(with_history=True).history] == ["0", "1"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", ("line 2", "not JSON", "one object a line")),
        ("[1]", ("line 2", "object")),
        (LINE | {"id": "b", "label": 2}, ("line 2", "label", "2")),
        (LINE | {"id": "b", "lable": 1}, ("line 2", "lable", "the fields are id")),
        ({"id": "b"}, ("line 2", "domain")),
        (LINE | {"id": "b", "next": "thanks"}, ("line 2", "next")),
        (LINE | {"id": "b", "next": [{"role": "assistant"}]}, ("line 2", "next", "'assistant'", "user, tool")),
        (LINE | {"id": "b", "reply": {"role": "user"}}, ("line 2", "reply", "give one of assistant")),
        (LINE, ("line 2", "id", "'a'", "give each turn its own")),
    ],
)
def test_a_bad_line_is_named_with_its_field_and_the_remedy(
    tmp_path: Path, line: str | dict[str, Any], named: tuple[str, ...]
) -> None:
    with pytest.raises(BadSet) as caught:
        read([file_of(tmp_path, LINE, line)])
    assert all(part in str(caught.value) for part in named), str(caught.value)


def test_a_file_that_holds_nothing_or_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSet, match="no turn in it"):
        read([file_of(tmp_path, "", " ")])
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(BadSet, match="not UTF-8"):
        read([tmp_path / "bytes"])
    with pytest.raises(BadSet, match="cannot be read"):
        read([tmp_path / "nowhere"])


def refused(arguments: list[str]) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    return ended.value.code


def test_the_command_prints_json_and_refuses_what_it_cannot_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(file_of(tmp_path, LINE))
    command.main([path, "--json", "--judge", "mine"])
    found = json.loads(capsys.readouterr().out)
    assert (found["judge"], found["total"]["turns"], found["cost"]["model_calls"]) == ("mine", 1, 0)
    for arguments, said in (
        ([], "usage"),
        ([str(tmp_path / "no")], "cannot be read"),
        ([path, "--jugde", "x"], "jugde"),
    ):
        assert refused(arguments) == 2
        assert said in capsys.readouterr().err
    assert refused(["--help"]) == 0


async def test_a_model_is_asked_and_its_cost_counted() -> None:
    async def completions(_: web.Request) -> web.Response:
        content = json.dumps({"vote": 1, "evidence": "thanks", "hint": None})
        usage = {"prompt_tokens": 100, "completion_tokens": 20}
        return web.json_response({"choices": [{"message": {"content": content}}], "usage": usage})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", completions)
    async with TestServer(app) as server:
        model = {"enabled": True, "url": str(server.make_url("/v1")), "model": "m", "price_prompt": 1.0}
        settings = JudgeSettings.model_validate({"model": {**model, "price_completion": 10.0}})
        found = await command.evaluate(settings, [labelled()])
    assert (found.cost.model_calls, found.cost.prompt_tokens, found.cost.completion_tokens) == (3, 300, 60)
    assert found.cost.spend == pytest.approx((300 * 1 + 60 * 10) / 1e6)
    assert found.total.accuracy.value == 1
    assert [(one.confidence, one.right) for one in found.calibration] == [(1.0, 1.0)]
