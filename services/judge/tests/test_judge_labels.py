"""The labelled set that ships with the judge, and how well the rules alone do on it."""

import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

from drivetrain.judge.evaluation import command
from drivetrain.judge.evaluation.labelled import Labelled, read
from drivetrain.judge.evaluation.table import table
from drivetrain.judge.settings import JudgeSettings

LABELS = Path(__file__).parent.parent / "labels"
TRAINING, HELD_OUT = LABELS / "training.jsonl", LABELS / "heldout.jsonl"
DOMAINS = {"chat", "terminal", "swe", "tool", "gui"}


@pytest.fixture(scope="module")
def turns() -> list[Labelled]:
    return read([TRAINING, HELD_OUT])


def held_out(turn: Labelled) -> bool:
    return int(hashlib.sha256(f"held out: {turn.id}".encode()).hexdigest(), 16) % 100 < 22


def test_chance_alone_says_what_is_held_out(turns: list[Labelled]) -> None:
    assert not any(map(held_out, read([TRAINING])))
    assert all(map(held_out, read([HELD_OUT])))
    assert 0.18 <= sum(map(held_out, turns)) / len(turns) <= 0.25


def test_the_set_is_large_and_holds_real_output_in_two_languages(turns: list[Labelled]) -> None:
    assert len(turns) >= 320
    assert sum(turn.source.startswith("ran: ") for turn in turns) >= 100
    assert {turn.source.split(": ")[0] for turn in turns} == {"ran", "written"}
    assert sum(turn.language == "zh" for turn in turns) >= len(turns) / 4
    assert sum(turn.hint is not None for turn in turns) >= 60


def test_every_domain_has_every_label_in_both_languages(turns: list[Labelled]) -> None:
    counted = Counter((turn.domain, turn.language, turn.label) for turn in turns)
    assert set(counted) == {(d, lang, label) for d in DOMAINS for lang in ("en", "zh") for label in (-1, 0, 1)}


def test_no_turn_is_there_twice(turns: list[Labelled]) -> None:
    seen = Counter((str(turn.conversation), str(turn.reply), str(turn.next)) for turn in turns)
    assert max(seen.values()) == 1


def test_calls_and_results_belong_together(turns: list[Labelled]) -> None:
    for turn in turns:
        called = {call["id"] for call in turn.reply.get("tool_calls", [])}
        answered = {message["tool_call_id"] for message in turn.next if message["role"] == "tool"}
        assert answered == called, turn.id


def test_nothing_tells_where_the_tools_ran() -> None:
    for path in (TRAINING, HELD_OUT):
        assert not re.search(r"/root\b|/tmp/|/work/", path.read_text())


async def test_the_rules_on_the_turns_to_learn_from(capsys: pytest.CaptureFixture[str]) -> None:
    found = await command.evaluate(JudgeSettings(), read([TRAINING]))
    with capsys.disabled():
        print(f"\n\n{TRAINING.name}\n{table(found)}\n")  # noqa: T201
    assert found.total.coverage.value == 1
    assert found.cost.seconds_per_turn < 0.1
    assert found.total.clear.value is not None
    assert found.total.clear.value >= 0.95
    assert found.total.silent.value is not None
    assert found.total.silent.value >= 0.95


async def test_the_rules_reach_the_floors_on_the_turns_held_out(capsys: pytest.CaptureFixture[str]) -> None:
    found = await command.evaluate(JudgeSettings(), read([HELD_OUT]))
    with capsys.disabled():
        print(f"\n\n{HELD_OUT.name}\n{table(found)}\n")  # noqa: T201
    assert found.total.clear.value is not None
    assert found.total.clear.value >= 0.90
    assert found.total.silent.value is not None
    assert found.total.silent.value >= 0.90
