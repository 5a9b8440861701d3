"""`drivetrain status` tells how prompts continue what was recorded, from the proxy's own metrics."""

from prometheus_client import CollectorRegistry, Counter, generate_latest
from rich.console import Console

from drivetrain.cli.commands.status import _drift
from drivetrain.cli.observe import DriftStatus, StackStatus, drift_of
from drivetrain.cli.stack.runfile import Run, StackUrls


def metrics() -> str:
    registry = CollectorRegistry()
    drift = Counter("drivetrain_proxy_drift", "Prompts", ["drift", "cause"], registry=registry)
    drift.labels("forked", "tools_changed").inc(1)
    drift.labels("clean", "appended").inc(7)
    drift.labels("realigned", "text")
    Counter("drivetrain_proxy_turns", "Turns", ["finish"], registry=registry).labels("stop").inc(9)
    return generate_latest(registry).decode()


def test_the_most_frequent_comes_first_and_what_never_happened_is_left_out() -> None:
    assert drift_of(metrics()) == [
        DriftStatus("clean", "appended", 7),
        DriftStatus("forked", "tools_changed", 1),
    ]


def test_a_proxy_that_does_not_answer_has_no_drift() -> None:
    assert drift_of("") == []


def test_shares_are_of_all_prompts() -> None:
    urls = StackUrls(proxy="", vllm="", nats="", nats_monitor="", valkey="", admin={})
    run = Run(pid=1, started_at=0.0, run_dir="", model="m", policy="p", method="m", urls=urls, processes={})
    seen = StackStatus(run=run, services={}, versions={}, streams={}, consumers={}, drift=drift_of(metrics()))
    console = Console(width=100)
    with console.capture() as shown:
        console.print(_drift(seen))
    assert "87.5%" in shown.get()
    assert "tools_changed" in shown.get()
