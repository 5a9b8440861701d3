"""Scoring again: which events, each once, what is refused, and how the difference is counted."""

from pathlib import Path
from typing import Any

import pytest

from drivetrain.common.bus import BusError, Consumer, MemoryBus
from drivetrain.common.events import Message, Signal, TurnFollowed, TurnScored, Vote
from drivetrain.common.settings import resolve
from drivetrain.judge.app import consumers
from drivetrain.judge.rerun import command
from drivetrain.judge.rerun.command import digest, rerun
from drivetrain.judge.rerun.report import Report, table
from drivetrain.judge.rerun.run import Refused
from drivetrain.judge.rerun.window import Window, moment
from drivetrain.judge.settings import JudgeSettings

WHO = {"tenant": "acme", "policy": "p", "session": "s"}
OTHER = JudgeSettings(precedence=("feedback", "reaction", "environment"))
MODEL = ("--model.enabled", "true", "--model.url", "http://127.0.0.1:1/v1", "--model.model", "m")
ALL = Window("p", 0.0, 1e9)


def followed(turn: str, *said: str, n: int = 0, at: float = 2.0, **changes: Any) -> TurnFollowed:
    messages: list[Message] = [{"role": "user", "content": text} for text in said]
    asked: list[Message] = [{"role": "user", "content": "What is rain?"}]
    values = {**WHO, "turn": turn, "n": n, "messages": messages, "before": asked, "at": at}
    return TurnFollowed(**{**values, "reply": {"role": "assistant", "content": "water"}, **changes})


def old(turn: str, reward: float | None, n: int = 0, judge: str = "rules") -> TurnScored:
    votes = [Vote(source="reaction", value=reward, evidence="-")] if reward else []
    return TurnScored(**WHO, turn=turn, n=n, judge=judge, reward=reward, votes=votes, hints=[], at=3.0)


async def bus_with(*events: TurnFollowed | TurnScored | Signal) -> MemoryBus:
    bus = MemoryBus()
    for event in events:
        await bus.publish(event)
    return bus


async def again(bus: MemoryBus, window: Window = ALL, judge: str = "new", dry: bool = False) -> Report:
    return await rerun(bus, OTHER, window, judge, "rules", dry=dry)


async def scored(bus: MemoryBus, judge: str) -> dict[tuple[str, int], float | None]:
    found = [stored.event for stored in await bus.last("SCORES", f"turn.scored.*.p.*.*.{judge}.*")]
    return {(score.turn, score.n): score.reward for score in found if isinstance(score, TurnScored)}


async def test_turns_are_scored_once_under_the_new_id_and_compared() -> None:
    bus = await bus_with(followed("a", "Thanks!"), followed("b", "Too long."), old("a", 1.0), old("b", 1.0))
    report = await again(bus)
    assert (report.next_states, report.stored, report.known, report.left_out) == (2, 2, 0, {})
    assert await scored(bus, "new") == {("a", 0): 1.0, ("b", 0): -1.0}
    found = report.difference
    assert found is not None
    assert (found.agreement.value, found.changed) == (0.5, 1)
    assert [(c.turn, c.old, c.new) for c in found.changes] == [("b", 1.0, -1.0)]
    twice = await again(bus)
    assert (twice.stored, twice.known, twice.difference) == (0, 2, found)
    assert len(bus.streams["SCORES"]) == 4


async def test_what_was_interrupted_goes_on_where_it_was() -> None:
    bus = await bus_with(*(followed(f"t{number}", "Thanks!") for number in range(6)))
    await again(bus, Window("p", 0.0, 1.0))
    part = Window("p", 0.0, 1e9)
    publish, left = bus.publish, iter(range(3))

    async def breaks(event: Any, headers: Any = None) -> int | None:
        if next(left, None) is None:
            raise BusError("SCORES did not confirm")
        return await publish(event, headers)

    bus.publish = breaks  # type: ignore[method-assign]
    with pytest.raises(ExceptionGroup):
        await again(bus, part)
    bus.publish = publish  # type: ignore[method-assign]
    report = await again(bus, part)
    assert (report.known, report.stored) == (3, 3)
    assert len(bus.streams["SCORES"]) == 6


async def test_only_the_policys_events_of_the_window_are_judged() -> None:
    inside = followed("inside", "Thanks!", at=5.0)
    lost = followed("lost", kind="superseded", at=5.0)
    other = followed("other", "Thanks!", at=5.0, policy="q")
    bus = await bus_with(followed("early", "Thanks!", at=4.9), inside, lost, other, followed("late", "Hi", at=6.0))
    report = await again(bus, Window("p", 5.0, 6.0))
    assert (report.next_states, await scored(bus, "new")) == (1, {("inside", 0): 1.0})


async def test_a_dry_run_counts_and_stores_nothing() -> None:
    signal = Signal(kind="feedback", **WHO, id="f", turn="a", value=1.0, at=4.0)
    bus = await bus_with(followed("a", "Thanks!"), signal)
    report = await again(bus, dry=True)
    assert (report.next_states, report.signals, report.stored, report.difference) == (1, 1, 0, None)
    assert bus.streams["SCORES"] == []
    assert "only counts" in table(report)


async def test_feedback_on_a_turn_that_expired_is_left_out_and_counted_by_reason() -> None:
    gone = [Signal(kind="feedback", **WHO, id=name, turn=name, value=1.0, at=4.0) for name in ("x", "y")]
    bus = await bus_with(followed("a", "Thanks!"), *gone)
    report = await again(bus)
    assert report.left_out == {"it was not recorded, or is kept no more": 2}
    assert "Left out: 2" in table(report)


async def test_the_id_of_a_judge_that_runs_is_refused() -> None:
    bus = await bus_with(followed("a", "Thanks!"))
    async with bus.consume(consumers(JudgeSettings(), 1)[0]):
        with pytest.raises(Refused, match="--judge"):
            await again(bus, judge="rules")
    async with bus.consume(Consumer("TURNS", "judge-newer-turns-0", ("turn.followed.0.>",))):
        assert (await again(bus)).stored == 1


async def test_an_id_that_another_configuration_used_is_refused() -> None:
    bus = await bus_with(followed("a", "Thanks!"))
    await again(bus)
    with pytest.raises(Refused, match="another configuration"):
        await rerun(bus, JudgeSettings(), ALL, "new", "rules", dry=False)


async def test_a_policy_without_turns_is_refused() -> None:
    bus = await bus_with(followed("a", "Thanks!"))
    with pytest.raises(Refused, match="nobody has no turns"):
        await again(bus, Window("nobody", 0.0, 9.0))


def test_what_a_rubric_says_is_part_of_the_configurations_name(tmp_path: Path) -> None:
    rubric = tmp_path / "rubric.toml"
    rubric.write_text('[[criteria]]\nname = "brief"\ntext = "It is short."\n')
    settings = resolve(JudgeSettings, "judge", ["--rubrics", f'{{"p": "{rubric}"}}', *MODEL], {})
    before = digest(settings)
    rubric.write_text('# the same\n[[criteria]]\nname = "brief"\ntext = "It is short."\n')
    assert digest(settings) == before
    rubric.write_text('[[criteria]]\nname = "brief"\ntext = "It is one sentence."\n')
    assert digest(settings) != before


def test_settings_that_change_no_score_do_not_change_the_configurations_name() -> None:
    plain = digest(JudgeSettings())
    assert digest(JudgeSettings(concurrency=3, judge="x")) == plain
    assert digest(OTHER) != plain
    assert digest(resolve(JudgeSettings, "judge", ["--environment.recovery", "0"], {})) != plain


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 1_000_000 - 5400),
        ("7d", 1_000_000 - 604_800),
        ("1.5h", 1_000_000 - 5400),
        ("1970-01-02", 86_400.0),
        ("1970-01-01T01:00:00", 3600.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert moment(text, 1_000_000.0) == seconds


@pytest.mark.parametrize("text", ["yesterday", "7", "7w", "", "2026-13-01"])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="7d, 12h"):
        moment(text, 0.0)


@pytest.mark.parametrize(
    ("arguments", "status", "named"),
    [
        (["--since", "7d"], 2, "--policy"),
        (["--policy", "p", "--since", "soon"], 2, "7d, 12h"),
        (["--policy", "p", "--since", "7d", "--config", "FILE"], 2, "unknown setting environment.recoverie"),
        (["--policy", "p", "--since", "7d", "--judge", "Not An Id"], 2, "judge"),
    ],
)
def test_bad_options_end_with_what_is_wrong(
    arguments: list[str], status: int, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "judge.toml"
    config.write_text("[environment]\nrecoverie = 1\n")
    with pytest.raises(SystemExit) as ended:
        command.main([str(config) if argument == "FILE" else argument for argument in arguments])
    assert ended.value.code == status
    assert named in capsys.readouterr().err
