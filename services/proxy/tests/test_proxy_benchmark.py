"""The parts of the proxy benchmark: what it asks, how it measures, and what it makes of that."""

import contextlib
import json
import math
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.proxy.candidates import CANDIDATES, Place
from benchmarks.proxy.client import words_in
from benchmarks.proxy.figures import LATENCY_COLUMNS, RATE_COLUMNS, Cell, Seen, figures, latency_rows, rate_rows
from benchmarks.proxy.histogram import Histogram
from benchmarks.proxy.load import Measured
from benchmarks.proxy.measure import bench
from benchmarks.proxy.plan import Plan
from benchmarks.proxy.run import report, run
from benchmarks.proxy.stub import Chunks, number
from benchmarks.proxy.turns import Sample, growth
from benchmarks.proxy.wire import Times, Words
from benchmarks.proxy.workload import CHARS_PER_TOKEN, Conversation, Shape, is_fresh, ramp
from drivetrain.cli.models import prepare_model

WORDS = Words(words=[" one", " two", " three"], ids=[11, 12, 13], end=2)


@given(st.lists(st.floats(1e-5, 100), min_size=1, max_size=200), st.sampled_from([1, 50, 99, 100]))
def test_a_percentile_is_right_to_one_per_cent(values: list[float], percent: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]
    assert histogram.percentile(percent) == pytest.approx(exact, rel=0.01)
    assert len(histogram) == len(values)


def test_a_histogram_without_values_has_no_percentile() -> None:
    assert math.isnan(Histogram().percentile(50))


def test_a_conversation_grows_by_reply_and_new_message() -> None:
    conversation = Conversation("c", 1000)
    first = json.loads(conversation.body(5, 32))
    conversation.go_on("a reply", "1", 10)
    second = json.loads(conversation.body(6, 32))
    assert len(conversation) == len(first["messages"]) + 2
    assert second["messages"][:-2] == first["messages"]
    assert second["messages"][-2] == {"role": "assistant", "content": "a reply"}
    assert second["messages"][-1]["role"] == "user"
    assert (second["seed"], second["max_tokens"], second["stream"]) == (6, 32, True)


def test_conversations_share_the_system_message_alone() -> None:
    one, two = (json.loads(Conversation(name, 2000).body(0, 8))["messages"] for name in ("a", "b"))
    assert one[0] == two[0]
    assert (one[0]["role"], one[-1]["role"]) == ("system", "user")
    assert not any(message in two for message in one[1:])
    assert sum(len(message["content"]) for message in one) == pytest.approx(2000 * CHARS_PER_TOKEN, rel=0.02)


def test_one_request_in_ten_begins_another_conversation() -> None:
    assert [n for n in range(30) if is_fresh(n, Shape(fresh_every=10))] == [9, 19, 29]
    assert all(is_fresh(n, Shape(fresh_every=1)) for n in range(5))
    assert not any(is_fresh(n, Shape(fresh_every=0)) for n in range(5))


def test_streams_begin_evenly_over_one_reply() -> None:
    assert ramp(4, 2.0) == [0.0, 0.5, 1.0, 1.5]


def test_times_are_shared_between_processes_through_a_file(tmp_path: Path) -> None:
    Times(tmp_path / "times").wrote(4097, 3, 12.5)
    there = Times(tmp_path / "times")
    there.received(4097, 11.0)
    assert Times(tmp_path / "times").of_token(4097, 3) == 12.5
    assert Times(tmp_path / "times").of_request(4097) == 11.0


def test_the_stub_finds_a_number_without_parsing() -> None:
    assert number(b'{"messages": [{"content": "9"}], "seed": 123, "n": 1}', b"seed", 0) == 123
    assert number(b'{"sampling_params":{"max_tokens":32}}', b"max_tokens", 1) == 32
    assert number(b"{}", b"seed", 7) == 7


def test_the_stub_answers_as_vllm_does() -> None:
    events = [part for chunk in Chunks(WORDS).generate(4) for part in chunk.split(b"data: ")[1:]]
    assert events[-1].startswith(b"[DONE]")
    *tokens, usage = [json.loads(event.split(b"\n\n")[0]) for event in events[:-1]]
    choices = [token["choices"][0] for token in tokens]
    assert [choice["token_ids"] for choice in choices] == [[11], [12], [13], [2]]
    assert [choice["logprobs"]["content"][0]["token_id"] for choice in choices] == [11, 12, 13, 2]
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "stop"]
    assert choices[-1]["weight_versions"] == [{"version": "7", "start": 0, "end": 4}]
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 4)
    assert WORDS.reply(4) == " one two three"


def test_tokens_are_counted_however_they_are_cut_into_pieces() -> None:
    assert [words_in(text) for text in (b" one", b"one", b" one two three", b"one two")] == [1, 1, 3, 2]


def cell(candidate: str, streams: int, late_ms: float, tokens: int, cpu_s: float, servers_cpu_s: float = 0.0) -> Cell:
    late = Histogram()
    late.add(late_ms / 1000, 10)
    seen = Measured(requests=10, tokens=tokens, seconds=2.0, first=late.counts, later=late.counts)
    return Cell(
        candidate=candidate, streams=streams, tokens=11, measured=seen, cpu_s=cpu_s, servers_cpu_s=servers_cpu_s
    )


SEEN = Seen(
    paced=[cell("direct", 128, 1.0, 100, 0.0), cell("drivetrain", 128, 3.0, 100, 0.5)],
    short=[
        cell("direct", 16, 1.0, 100, 0.0),
        cell("bare relay", 16, 1.0, 1000, 1.0),
        cell("drivetrain", 16, 1.0, 1000, 1.25, 0.75),
        cell("rllm-model-gateway", 16, 1.0, 100, 1.0),
        cell("litellm", 16, 1.0, 100, 5.0),
    ],
    long=[],
    not_recorded=0,
)


def test_figures_compare_requests_a_core_and_latencies_with_the_engine_alone() -> None:
    found = figures(SEEN)
    # 1000 tokens of replies with 10 words each are 100 requests
    assert found["rps_per_core"] == pytest.approx(80)
    assert found["rps_per_core_with_servers"] == pytest.approx(50)
    assert found["vs_bare_relay"] == pytest.approx(0.8)
    assert found["vs_bare_relay_with_servers"] == pytest.approx(0.5)
    assert found["rps_per_core_vs_rllm"] == pytest.approx(8)
    assert found["rps_per_core_vs_litellm"] == pytest.approx(40)
    assert found["added_ttft_ms_p50_128"] == pytest.approx(2, abs=0.05)
    assert found["added_token_ms_p99_128"] == pytest.approx(2, abs=0.05)
    assert found["failed_requests"] == 0
    assert not any(name.startswith("added") and "direct" in name for name in found)


def test_what_was_not_measured_is_left_out() -> None:
    found = figures(Seen(paced=[], short=[], long=[], not_recorded=0))
    assert "vs_bare_relay" not in found
    assert all(not math.isnan(value) for value in found.values())


def test_the_tables_have_a_cell_for_each_column() -> None:
    assert {len(row) for row in latency_rows(SEEN)} == {len(LATENCY_COLUMNS)}
    assert {len(row) for row in rate_rows(SEEN)} == {len(RATE_COLUMNS)}
    assert [row[5] for row in rate_rows(SEEN)] == ["-", "0.80x", "1.00x", "8.00x", "40.00x"]


def test_memory_is_told_after_each_fifth_of_the_turns() -> None:
    samples = [Sample(turns, 300.0 if turns < 9_000 else 400.0 + turns / 10_000) for turns in range(0, 50_001, 500)]
    found = growth(samples, 50_000)
    assert found["rss_mb_10k"] == pytest.approx(401)
    assert found["rss_mb_50k"] == pytest.approx(405)
    assert found["rss_growth_mb_10k_50k"] == pytest.approx(4)
    assert growth(samples[:25], 50_000) == {"rss_mb_10k": pytest.approx(401)}
    assert growth(samples, 500) == {"rss_mb_100": 300.0, "rss_mb_200": 300.0, "rss_mb_300": 300.0} | {
        "rss_mb_400": 300.0, "rss_mb_500": 300.0, "rss_growth_mb_100_500": 0.0
    }  # fmt: skip


def test_the_last_request_of_a_conversation_says_so() -> None:
    conversation = Conversation("c", 100)
    assert json.loads(conversation.body(1, 8, last=True))["session_done"] is True
    assert "session_done" not in json.loads(conversation.body(1, 8))


def test_the_result_file_states_machine_date_and_command() -> None:
    found = report("proxy", {"a_ms": 1.23456}, "python -m benchmarks.proxy", datetime(2030, 1, 2, tzinfo=UTC))
    assert found["date"] == "2030-01-02"
    assert found["figures"] == {"a_ms": 1.235}
    assert set(found) == {"benchmark", "machine", "date", "command", "note", "figures"}


@pytest.mark.slow
def test_a_tiny_run_measures_relay_and_proxy_and_every_turn_is_recorded(tmp_path: Path) -> None:
    shape = Shape(history=600, new=60, fresh=900, fresh_every=4, reply=6, turns=2)
    plan = Plan(paced={2: shape}, paced_s=1.0, unpaced_s=0.5, unpaced_streams=2, long=shape, tokens_per_s=50)
    model = prepare_model(None)
    with contextlib.ExitStack() as stack:
        started = stack.enter_context(bench(tmp_path, model))
        place = Place(engine=started.engine, folder=tmp_path, model=model)
        names = ("direct", "bare relay", "drivetrain")
        candidates = {name: stack.enter_context(CANDIDATES[name](place)) for name in names}
        seen = run(plan, started, candidates, Console(quiet=True))
    assert all(each.measured.requests and not each.measured.trouble for each in (*seen.paced, *seen.short, *seen.long))
    assert seen.not_recorded == 0
    assert {"added_ttft_ms_p50_2", "vs_bare_relay", "vs_bare_relay_8k"} <= set(figures(seen))
