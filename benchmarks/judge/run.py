"""How fast the judge is with rules alone: turns a second of one replica and of two, the delay of a score, CPU by part.

Judges and a NATS server with its store in a file run as processes of their own on this machine; the turns are those of
the labelled set, with their conversations recorded. What else runs here takes from them: the load at the start is among
the figures. They go to `benchmarks/results/judge.json`.
"""

import argparse
import asyncio
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.judge.figures import figures
from benchmarks.judge.measure import delays, parts, rate
from benchmarks.loop.run import machine
from drivetrain.cli.paths import new_run_dir
from drivetrain.judge.evaluation.labelled import read

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "benchmarks" / "results" / "judge.json"
LABELS = ROOT / "services" / "judge" / "labels" / "training.jsonl"


def main() -> None:
    """Measure, print the figures, write them."""
    arguments, console = _arguments(), Console()
    found = asyncio.run(measured(arguments))
    table = Table("figure", "value", title="The judge", title_justify="left")
    for name, value in found.items():
        table.add_row(name, f"{value:g}")
    console.print(table)
    command = " ".join(["python -m benchmarks.judge", *sys.argv[1:]])
    report = {
        "benchmark": "judge",
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": command,
        "figures": found,
    }
    arguments.out.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    console.print(f"Wrote {arguments.out}", soft_wrap=True)


async def measured(arguments: argparse.Namespace) -> dict[str, float]:
    """The figures; what was stored for them is removed."""
    turns, folder, load = read([LABELS]), new_run_dir("bench-judge"), os.getloadavg()[0]
    try:
        rates = [await rate(folder / f"rate-{n}", turns, arguments.turns, n) for n in (1, 2)]
        seconds = await delays(folder / "delays", turns, arguments.delays, arguments.per_s)
    finally:
        shutil.rmtree(folder)
    return {**figures(rates, seconds, await parts(turns, rounds=5)), "load_average_at_start": load}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge", description=__doc__)
    parser.add_argument("--turns", type=int, default=20_000, help="turns for the rates")
    parser.add_argument("--delays", type=int, default=2_000, help="turns for the delay")
    parser.add_argument("--per-s", type=float, default=100.0, help="turns a second for the delay")
    parser.add_argument("--out", type=Path, default=TARGET, help="write the result file there")
    return parser.parse_args()
