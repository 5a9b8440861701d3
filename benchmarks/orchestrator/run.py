"""How fast sandboxes start, what rollouts cost, and whether anything is left of them.

Sandboxes are those of the process backend, with bubblewrap, control groups, and a socket from a proxy of this
benchmark; NATS runs as a process with its store in a file. The cluster is the API server of the tests, with pods that
answer at once, in the same process: its rate is that of both. What else runs here takes from all of them: the load at
the start is among the figures. They go to `benchmarks/results/orchestrator.json`.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.loop.run import machine
from benchmarks.orchestrator.figures import figures
from benchmarks.orchestrator.measure import first_calls, many, starts, through_cluster

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "benchmarks" / "results" / "orchestrator.json"


def main() -> None:
    """Measure, print the figures, write them."""
    arguments, console = _arguments(), Console()
    found = asyncio.run(measured(arguments))
    table = Table("figure", "value", title="The orchestrator", title_justify="left")
    for name, value in found.items():
        table.add_row(name, f"{value:g}")
    console.print(table)
    report = {
        "benchmark": "orchestrator",
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": " ".join(["python -m benchmarks.orchestrator", *sys.argv[1:]]),
        "figures": found,
    }
    arguments.out.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    console.print(f"Wrote {arguments.out}", soft_wrap=True)


async def measured(arguments: argparse.Namespace) -> dict[str, float]:
    """The figures; what was stored for them is removed."""
    folder, load = Path(tempfile.mkdtemp(prefix="bench-")), os.getloadavg()[0]
    for name in ("starts", "calls", "many", "cluster"):
        (folder / name).mkdir()
    try:
        cold, warm = await starts(folder / "starts", arguments.starts)
        calls = await first_calls(folder / "calls", arguments.calls)
        ran = await many(folder / "many", arguments.rollouts, arguments.concurrency)
        pods = await through_cluster(folder / "cluster", arguments.rollouts)
    finally:
        shutil.rmtree(folder)
    return {**figures(cold, warm, calls, ran, pods), "load_average_at_start": round(load, 2)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.orchestrator", description=__doc__)
    parser.add_argument("--starts", type=int, default=200, help="sandboxes to start")
    parser.add_argument("--calls", type=int, default=50, help="rollouts whose first call is timed")
    parser.add_argument("--rollouts", type=int, default=1000, help="rollouts of a harness that does nothing")
    parser.add_argument("--concurrency", type=int, default=4, help="of them at a time, on this machine")
    parser.add_argument("--out", type=Path, default=TARGET, help="write the result file there")
    return parser.parse_args()
