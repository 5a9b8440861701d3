"""What a rerun reports: the difference between two judges' scores, and a few of the turns that changed."""

import json

import msgspec
import pytest

from drivetrain.common.events import TurnScored, Vote
from drivetrain.judge.rerun.difference import difference
from drivetrain.judge.rerun.report import Report, table
from drivetrain.judge.rerun.stored import Scores


def old(turn: str, reward: float | None, n: int, judge: str) -> TurnScored:
    votes = [Vote(source="reaction", value=reward, evidence="-")] if reward else []
    return TurnScored(
        tenant="acme",
        policy="p",
        session="s",
        turn=turn,
        n=n,
        judge=judge,
        reward=reward,
        votes=votes,
        hints=[],
        at=3.0,
    )


def scores(judge: str, rewards: dict[str, dict[int, float | None]]) -> Scores:
    found = Scores()
    for turn, revisions in rewards.items():
        for n, reward in revisions.items():
            found.add(old(turn, reward, n, judge), "")
    return found


def test_the_difference_is_counted_by_turn_at_the_old_judges_newest_revision() -> None:
    before = scores("rules", {"a": {0: -1.0, 7: 1.0}, "b": {0: 0.0}, "c": {0: None}, "d": {0: 1.0}, "e": {0: -0.5}})
    after = scores("new", {"a": {0: -1.0, 7: 0.5}, "b": {0: 1.0}, "c": {0: -1.0}, "e": {0: 1.0}, "f": {0: 1.0}})
    found = difference("rules", [("s", turn) for turn in "abcdef"], before, after, seed=0)
    # Both scored a, b and e: (1, 1), (0, 1), (-1, 1).
    assert (found.covered_old.value, found.covered_new.value) == (4 / 6, 5 / 6)
    assert found.agreement.value == pytest.approx(1 / 3)
    assert found.kappa.value == pytest.approx(0.0)  # observed 1/3, by chance 1/3
    assert found.confusion["+1"] == {"-1": 0, "0": 0, "+1": 1, "no score": 1}
    assert found.confusion["no score"] == {"-1": 1, "0": 0, "+1": 1, "no score": 0}
    assert [(c.turn, c.n, c.new - c.old) for c in found.changes] == [("e", 0, 1.5), ("b", 0, 1.0), ("a", 7, -0.5)]


def test_at_most_ten_changes_are_shown_and_all_are_counted() -> None:
    turns = {f"t{number:02}": {0: number / 100} for number in range(1, 13)}
    found = difference(
        "rules", [("s", t) for t in turns], scores("r", turns), scores("n", {turn: {0: 1.0} for turn in turns}), 0
    )
    assert (found.changed, len(found.changes), found.changes[0].turn) == (12, 10, "t01")


def test_a_report_is_json_too() -> None:
    report = Report(
        judge="new", policy="p", since=0.0, until=1.0, next_states=1, signals=0, stored=1, known=0, left_out={},
        difference=difference("rules", [("s", "a")], scores("r", {}), scores("n", {"a": {0: 1.0}}), 0),
    )  # fmt: skip
    assert json.loads(msgspec.json.encode(report))["difference"]["covered_new"]["value"] == 1.0
    assert "no score of rules to compare with" in table(report)
