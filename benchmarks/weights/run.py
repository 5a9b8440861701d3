"""What a new version costs the archive: bytes and seconds, full against delta, after one step of AdamW.

Weights are random, of the small model's shape, and trained in float32 as the trainer does; versions are compared in the
type in which they are served. Writes `benchmarks/results/weights.json`.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.loop.run import machine
from benchmarks.weights.deltas import DTYPES, Measured, measure
from benchmarks.weights.training import Shape, initial, neighbours

TARGET = Path(__file__).parent.parent / "results" / "weights.json"
LEARNING_RATES = (1e-6, 3e-6, 1e-5, 3e-5)


def main() -> None:
    """Measure every type at every learning rate, print the table, write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.weights", description=__doc__)
    parser.add_argument("--learning-rates", type=float, nargs="+", default=LEARNING_RATES, metavar="RATE")
    parser.add_argument("--layers", type=int, default=Shape().layers, help="fewer where memory is short")
    arguments = parser.parse_args()
    measured, weights = [], initial(Shape(layers=arguments.layers))
    for learning_rate in arguments.learning_rates:
        before, after = neighbours(weights, learning_rate)
        for dtype in DTYPES:
            with tempfile.TemporaryDirectory(prefix="bench-weights-") as folder:
                measured.append(measure(before, after, dtype, learning_rate, Path(folder)))
        print(f"learning rate {learning_rate:g} is measured", file=sys.stderr)
    Console(width=120).print(table(measured))
    result = {
        "benchmark": "weights",
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": " ".join(["python -m benchmarks.weights", *sys.argv[1:]]),
        "figures": figures(measured),
    }
    TARGET.write_text(json.dumps(result, indent=2) + "\n")


def table(measured: Sequence[Measured]) -> Table:
    """One line for each pair of versions."""
    shown = Table(title="A version and its parent, one step apart", title_justify="left")
    for column in (
        "type",
        "learning rate",
        "values changed",
        "full, MB",
        "delta, MB",
        "smaller",
        "pack, s",
        "apply, s",
    ):
        shown.add_column(column)
    for one in measured:
        sizes = (f"{one.full_bytes / 1e6:.0f}", f"{one.delta_bytes / 1e6:.1f}", f"{ratio(one):.1f} x")
        times = (f"{one.pack_s:.1f}", f"{one.apply_s:.1f}")
        shown.add_row(one.dtype, f"{one.learning_rate:g}", f"{one.changed_share:.1%}", *sizes, *times)
    return shown


def figures(measured: Sequence[Measured]) -> dict[str, float]:
    """Flat figures, with type and learning rate in their names."""
    found: dict[str, float] = {}
    for one in measured:
        name = f"{one.dtype}_lr_{one.learning_rate:g}"
        found[f"{one.dtype}_full_bytes"] = one.full_bytes
        found[f"{name}_delta_bytes"] = one.delta_bytes
        found[f"{name}_times_smaller"] = round(ratio(one), 2)
        found[f"{name}_changed_share"] = round(one.changed_share, 4)
        found[f"{name}_pack_s"] = round(one.pack_s, 2)
        found[f"{name}_apply_s"] = round(one.apply_s, 2)
    return found


def ratio(one: Measured) -> float:
    """How many times smaller the delta is."""
    return one.full_bytes / one.delta_bytes
