"""What a proxy costs: latency, requests a core and memory of Drivetrain's proxy, next to others in the same run.

One stub engine speaks vLLM's protocol for all. Every candidate stands before it and gets the same load in turn:
conversations of 8k tokens that grow by 300 a turn, one request in ten the first of another with 20k, at 20 tokens a
second and stream; then as fast as can be, with prompts of 500 tokens and with that load. The figures go to
`benchmarks/results/proxy.json`. With `--turns` only Drivetrain is asked, for its memory over many turns
(`benchmarks/results/proxy_turns.json`).
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.loop.run import machine
from benchmarks.proxy.candidates import CANDIDATES, PEER_NAMES, PEERS, Candidate, Place, recorded_turns
from benchmarks.proxy.dialects import per_core
from benchmarks.proxy.figures import LATENCY_COLUMNS, OURS, RATE_COLUMNS, Cell, Seen, figures, latency_rows, rate_rows
from benchmarks.proxy.measure import Bench, bench
from benchmarks.proxy.plan import FULL, QUICK, Plan
from benchmarks.proxy.turns import CACHE_BYTES, memory_over_turns
from drivetrain.cli.models import prepare_model
from drivetrain.cli.paths import new_run_dir

RESULTS = Path(__file__).parent.parent / "results"
NOTE = (
    "The candidates, the engine, the load generator and whatever else the machine did shared its cores: compare the "
    "candidates of one run, not runs."
)


def main() -> None:
    """Run the plan, print the tables, write the figures."""
    arguments, console = _arguments(), Console(width=140)
    names = [OURS] if arguments.turns else arguments.only or list(CANDIDATES)
    if missing := [name for name in names if name in PEER_NAMES and not PEERS.is_dir()]:
        raise SystemExit(f"{' and '.join(missing)}: run scripts/setup-peers.sh first, or name others with --only")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))  # so that what was started is ended
    folder = new_run_dir("bench-proxy")
    console.print(f"Logs: {folder}", soft_wrap=True)
    with contextlib.ExitStack() as stack:
        started = stack.enter_context(bench(folder, arguments.model))
        settings = {"SESSIONS__CACHE_BYTES": str(CACHE_BYTES)} if arguments.turns else {}
        place = Place(engine=started.engine, folder=folder, model=arguments.model, settings=settings)
        candidates = {name: stack.enter_context(CANDIDATES[name](place)) for name in names}
        if arguments.turns:
            found = memory_over_turns(started, candidates[OURS], arguments.turns)
            console.print(found)
            _write("proxy_turns", found, arguments.out)
            return
        plan = QUICK if arguments.quick else FULL
        seen = run(plan, started, candidates, console)
        dialects = per_core(candidates[OURS], plan.unpaced_s) if OURS in candidates else {}
    for title, columns, rows in (
        ("At 20 tokens/s a stream, 8k histories (direct: absolute)", LATENCY_COLUMNS, latency_rows(seen)),
        ("As fast as can be", RATE_COLUMNS, rate_rows(seen)),
    ):
        console.print(_table(title, columns, rows))
    console.print(_table("Requests a second and core, by dialect", ("dialect", "requests"), dialect_rows(dialects)))
    _write("proxy", {**figures(seen), **{f"rps_per_core_{n}": v for n, v in dialects.items()}}, arguments.out)


def dialect_rows(found: Mapping[str, float]) -> list[tuple[str, ...]]:
    """A row per dialect."""
    return [(name, f"{value:.0f}") for name, value in found.items()]


def run(plan: Plan, started: Bench, candidates: Mapping[str, Candidate], console: Console) -> Seen:
    """Measure every load of the plan, all candidates one after the other within each."""
    paced: list[Cell] = []
    short: list[Cell] = []
    long: list[Cell] = []
    for streams, shape in plan.paced.items():
        for name, candidate in candidates.items():
            paced.append(
                started.measure(name, candidate, shape, streams=streams, pace=plan.tokens_per_s, seconds=plan.paced_s)
            )
            _say(console, f"{streams} streams", paced[-1])
    for title, cells, shape in (("500 tokens", short, plan.short), ("8k history", long, plan.long)):
        for name, candidate in candidates.items():
            cells.append(
                started.measure(name, candidate, shape, streams=plan.unpaced_streams, pace=0, seconds=plan.unpaced_s)
            )
            _say(console, title, cells[-1])
    ours = candidates.get(OURS)
    recorded = asyncio.run(recorded_turns(ours)) if ours else 0
    answered = sum(cell.measured.answered for cell in (*paced, *short, *long) if cell.candidate == OURS)
    return Seen(paced=paced, short=short, long=long, not_recorded=max(answered - recorded, 0))


def report(name: str, found: Mapping[str, float], command: str, at: datetime) -> dict[str, object]:
    """The result file's content."""
    return {
        "benchmark": name,
        "machine": machine(),
        "date": at.strftime("%Y-%m-%d"),
        "command": command,
        "note": NOTE,
        "figures": {key: round(value, 3) for key, value in found.items()},
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proxy", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few streams and little time: does every part work?")
    parser.add_argument("--turns", type=int, default=0, help="watch the proxy's memory over so many turns instead")
    parser.add_argument("--only", nargs="+", choices=list(CANDIDATES), metavar="NAME", help="these candidates alone")
    parser.add_argument("--model", default=None, help="model folder, for its tokenizer")
    parser.add_argument("--out", type=Path, default=None, help="write the result file there")
    arguments = parser.parse_args()
    arguments.model = prepare_model(arguments.model)
    return arguments


def _say(console: Console, load: str, cell: Cell) -> None:
    measured = cell.measured
    trouble = f", trouble: {measured.trouble}" if measured.trouble else ""
    console.print(f"{load}, {cell.candidate}: {measured.requests} requests{trouble}", soft_wrap=True)


def _write(name: str, found: Mapping[str, float], out: Path | None) -> None:
    target = out or RESULTS / f"{name}.json"
    command = " ".join(["python -m benchmarks.proxy", *sys.argv[1:]])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(msgspec.json.format(msgspec.json.encode(report(name, found, command, datetime.now(UTC)))))
    print(f"Wrote {target}")


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    return table
