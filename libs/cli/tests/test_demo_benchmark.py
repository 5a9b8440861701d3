"""The loop benchmark's figures: the worst of the seeds, worked out by hand."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drivetrain.cli.demo.evaluate import Answer, Heldout, summarise
from drivetrain.cli.demo.report import facts
from drivetrain.cli.demo.result import Delay, Moment, Result, Trouble

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.loop.figures import COLUMNS, figures, rows
from benchmarks.loop.run import report


def heldout(hits: int, perplexity: float) -> Heldout:
    answers = [Answer(f"q{n}", f"reply {n}", "stop", [] if n < hits else ["too long"]) for n in range(100)]
    return summarise(answers, perplexity)


def result(seed: int, hits: int, failed: int = 0, delay: float | None = 40.0, minutes: float = 9.0) -> Result:
    return Result(
        taste="one-sentence",
        seed=seed,
        method="combine",
        model="m",
        run_dir="a-folder",
        minutes=minutes,
        total_minutes=minutes + 2,
        sessions=200,
        objections=150,
        thanks=120,
        given_up=30,
        version=15,
        before=heldout(2, 20.0),
        after=heldout(hits, 20.0 + seed),
        trouble=Trouble(800, failed, 0, 0, ["APIError: no"] * failed),
        delay=Delay(delay, delay, 100, 3),
        updates=[Moment(0.5, 1, {"kl_reference": 0.02})],
        firsts=[],
        held=["version 3: KL too high"],
        stalls=0,
    )


def test_figures_are_the_worst_of_the_seeds() -> None:
    found = figures([result(0, 80), result(1, 60, failed=2, delay=55.0), result(2, 90, delay=None, minutes=12.0)])
    assert found["heldout_gain_points_min"] == pytest.approx(58)
    assert found["heldout_gain_points_median"] == pytest.approx(78)
    assert found["failed_requests"] == 2
    assert found["requests"] == 2400
    assert found["correction_to_changed_reply_s"] == 55.0
    assert found["minutes"] == 12.0
    assert found["minutes_with_start"] == 14.0
    assert found["perplexity_ratio_max"] == pytest.approx(1.1)
    assert found["distinct_replies_ratio_min"] == 1.0
    assert found["seeds_with_intervals_apart"] == 3


def test_a_delay_that_was_not_measured_is_left_out() -> None:
    assert "correction_to_changed_reply_s" not in figures([result(0, 80, delay=None)])


def test_the_result_file_states_machine_date_and_command() -> None:
    found = report([result(0, 80)], "python -m benchmarks.loop", datetime(2030, 1, 2, tzinfo=UTC))
    assert found["date"] == "2030-01-02"
    assert found["command"] == "python -m benchmarks.loop"
    assert "cores" in str(found["machine"])
    assert set(found) == {"benchmark", "machine", "date", "command", "figures"}


def test_the_table_has_a_cell_for_each_column() -> None:
    assert [len(row) for row in rows([result(0, 80), result(1, 70, delay=None)])] == [len(COLUMNS)] * 2


def test_the_facts_tell_the_bad_as_well() -> None:
    told = "\n".join(facts(result(0, 3, failed=1)))
    assert "+1 points; the intervals overlap" in told
    assert "1 failed" in told
    assert "APIError: no" in told
    assert "Held back: version 3: KL too high" in told
    assert "40 s in the median" in told
    assert "0.0200 nats" in told
