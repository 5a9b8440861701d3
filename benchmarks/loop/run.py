"""The whole loop in three seeds: how much is learnt, how fast, and what it costs those who talk to the model.

Each seed is one `drivetrain demo` in a process of its own, one after the other. The figures go to
`benchmarks/results/loop.json`; the demos' own results stay in the folder that is printed.
"""

import argparse
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.loop.figures import COLUMNS, figures, rows
from drivetrain.cli.demo.result import RESULT_FILE, Result, read_result
from drivetrain.cli.paths import new_run_dir

TARGET = Path(__file__).parent.parent / "results" / "loop.json"


def main() -> None:
    """Run the demos, print the table, write the figures. Ends with status 1 if a demo left no result."""
    arguments = _arguments()
    folder, console = new_run_dir("bench-loop"), Console()
    console.print(f"Results of each demo: {folder}", soft_wrap=True)
    results = [_demo(folder / f"seed-{seed}", seed, arguments.demo) for seed in arguments.seeds]
    console.print(_table(results))
    command = " ".join(["python -m benchmarks.loop", *sys.argv[1:]])
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(msgspec.json.format(msgspec.json.encode(report(results, command, datetime.now(UTC)))))
    console.print(f"Wrote {TARGET}", soft_wrap=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loop", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="SEED")
    parser.add_argument("demo", nargs="*", help="more options for `drivetrain demo`, after --")
    return parser.parse_args()


def _demo(run_dir: Path, seed: int, options: list[str]) -> Result:
    command = [sys.executable, "-m", "drivetrain.cli", "demo", "--seed", str(seed), "--run-dir", str(run_dir), *options]
    status = subprocess.run(command, check=False).returncode
    if not (run_dir / RESULT_FILE).is_file():
        raise SystemExit(f"the demo with seed {seed} ended with status {status} and left no result; see {run_dir}/logs")
    return read_result(run_dir)


def report(results: list[Result], command: str, at: datetime) -> dict[str, object]:
    """The result file's content."""
    return {
        "benchmark": "loop",
        "machine": machine(),
        "date": at.strftime("%Y-%m-%d"),
        "command": command,
        "figures": {name: round(value, 3) for name, value in figures(results).items()},
    }


def machine() -> str:
    """The machine in words: processor, cores, memory, system."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{names[0] if names else platform.machine()}, {cores} cores, {memory:.0f} GiB, {platform.system()}"


def _table(results: list[Result]) -> Table:
    table = Table(title="The whole loop", title_justify="left")
    for column in COLUMNS:
        table.add_column(column)
    for row in rows(results):
        table.add_row(*row)
    return table
