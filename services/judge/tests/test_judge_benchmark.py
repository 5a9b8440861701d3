"""The figures of the judge benchmark, from counters that were read by hand."""

from benchmarks.judge.figures import figures, quantile
from benchmarks.judge.measure import Rate
from benchmarks.judge.workload import events_of, sessions
from drivetrain.common.events import TurnRecorded
from drivetrain.judge.evaluation.labelled import Labelled

TURN = Labelled(
    id="a", domain="chat", language="en", label=1, reply={"role": "assistant", "content": "water"},
    conversation=[
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "What is rain?"},
    ],
    next=[{"role": "user", "content": "Thanks!"}],
)  # fmt: skip


def test_rates_scaling_and_cpu_by_part() -> None:
    one, two = Rate(1000, 2.0, 1.5, 0.5), Rate(1000, 1.25, 2.0, 0.5)
    found = figures([one, two], [0.004, 0.001, 0.002, 0.003], {"rules": 0.0005, "codec": 0.0001})
    assert (found["turns_per_s"], found["turns_per_s_2_replicas"], found["scaling_1_to_2"]) == (500, 800, 1.6)
    assert (found["turns_per_judge_cpu_s"], found["judge_cores"], found["cpu_ms_per_turn"]) == (666.667, 0.75, 1.5)
    assert (found["cpu_ms_per_turn_rules"], found["cpu_ms_per_turn_bus"]) == (0.5, 0.9)
    assert (found["followed_to_scored_ms_p50"], found["followed_to_scored_ms_p99"]) == (2, 4)


def test_readings_of_counters_are_subtracted() -> None:
    assert Rate(900, 12.0, 3.0, 1.0).since(Rate(100, 10.0, 2.0, 0.5)) == Rate(800, 2.0, 1.0, 0.5)


def test_quantiles_are_values_that_were_seen() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [quantile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]


def test_a_turn_comes_with_its_conversation() -> None:
    recorded, followed = events_of(TURN, "s7", 1.0)
    parent, turn = (event for event in recorded if isinstance(event, TurnRecorded))
    assert (parent.parent, turn.parent, turn.session) == (None, parent.turn, "s7")
    assert [message["content"] for message in (*parent.messages, parent.reply, *turn.messages, turn.reply)] == [
        "hi", "hello", "What is rain?", "water",
    ]  # fmt: skip
    assert (followed.turn, followed.messages) == (turn.turn, TURN.next)
    assert [name for _, name in sessions([TURN], 3)] == ["s0", "s1", "s2"]
