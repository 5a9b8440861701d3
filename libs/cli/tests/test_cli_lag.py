"""`drivetrain status` tells how much waits for each consumer, as the NATS server counts it."""

from rich.console import Console

from drivetrain.cli.commands.status import _streams
from drivetrain.cli.observe import ConsumerStatus, StackStatus, StreamStatus, _consumers, _stream_details
from drivetrain.cli.stack.runfile import Run, StackUrls

SERVER = {
    "account_details": [
        {
            "stream_detail": [
                {
                    "name": "TURNS",
                    "state": {"messages": 40, "bytes": 9000},
                    "consumer_detail": [{"name": "judge-rules-turns-0", "num_pending": 17, "num_ack_pending": 5}],
                },
                {"name": "DEAD", "state": {"messages": 0, "bytes": 0}},
            ]
        }
    ]
}


def test_a_consumers_lag_is_what_the_server_says() -> None:
    assert _consumers(_stream_details(SERVER)) == [("judge-rules-turns-0", ConsumerStatus("TURNS", 17, 5))]
    assert _consumers(_stream_details(None)) == []


def test_the_table_shows_pending_and_unacknowledged_beside_the_stream() -> None:
    urls = StackUrls(proxy="", vllm="", nats="", nats_monitor="", valkey="", admin={})
    run = Run(pid=1, started_at=0.0, run_dir="", model="m", policy="p", method="m", urls=urls, processes={})
    streams = {"TURNS": StreamStatus(40, 9000), "DEAD": StreamStatus(0, 0)}
    consumers = dict(_consumers(_stream_details(SERVER)))
    console = Console(width=120)
    with console.capture() as shown:
        console.print(_streams(StackStatus(run=run, services={}, versions={}, streams=streams, consumers=consumers)))
    line = next(line for line in shown.get().splitlines() if "TURNS" in line)
    assert [cell.strip() for cell in line.strip("│ ").split("│")] == [
        "TURNS",
        "40",
        "9",
        "judge-rules-turns-0",
        "17",
        "5",
    ]
