"""`make bench NAME=exactness`: are prompts exact, when do they fork, and what does the next turn cost?

Random conversations over the tokenizers and chat templates of several model families, against transformers' own
rendering (which is vLLM's). Nothing is sampled by a model. Writes `benchmarks/results/exactness.json`.
"""

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.exactness.conversations import KINDS, Counted, count
from benchmarks.exactness.cost import Cost, measure
from benchmarks.loop.run import machine
from tests.conversations import FAMILIES, load

RESULTS = Path(__file__).parent.parent / "results"
SIZES = (8_000, 20_000)


def main() -> None:
    """Measure every family, print both tables and write the result file."""
    counted: dict[str, list[Counted]] = {}
    costs: dict[str, list[Cost]] = {}
    renderers: dict[str, str] = {}
    for family in FAMILIES:
        template = load(family)
        renderers[family] = template.renderer.config.name
        counted[family] = [found for kind in KINDS if (found := count(template, kind)) is not None]
        costs[family] = [asyncio.run(measure(template, size)) for size in SIZES]
        print(f"{family} is measured", file=sys.stderr)
    console = Console(width=120)
    console.print(forks(renderers, counted))
    console.print(times(costs))
    result = {
        "benchmark": "exactness",
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": "make bench NAME=exactness",
        "figures": figures(counted, costs),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "exactness.json").write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(1 if any(one.mismatches for found in counted.values() for one in found) else 0)


def forks(renderers: dict[str, str], counted: dict[str, list[Counted]]) -> Table:
    """Forks by family and kind of conversation."""
    table = Table("family", "renderer", "conversation", "prompts", "forks", "cause", "hard mismatches")
    for family, found in counted.items():
        for index, one in enumerate(found):
            head = (family, renderers[family]) if index == 0 else ("", "")
            table.add_row(
                *head, one.kind, str(one.prompts), f"{one.fork_rate:.0%}", ", ".join(one.forks), str(one.mismatches)
            )
    return table


def times(costs: dict[str, list[Cost]]) -> Table:
    """What prompts cost by family and length."""
    table = Table("family", "tokens", "first, CPU ms", "next, CPU ms", "next, realigned, CPU ms", "longest stall, ms")
    for family, found in costs.items():
        for one in found:
            cells = (one.first_ms, one.next_ms, one.realigned_ms, one.stall_ms)
            table.add_row(family, str(one.tokens), *(f"{cell:.1f}" for cell in cells))
    return table


def figures(counted: dict[str, list[Counted]], costs: dict[str, list[Cost]]) -> dict[str, float]:
    """The worst over the families, and the fork rate of each family and kind."""
    every = [one for found in counted.values() for one in found]
    rates = {f"fork_rate_{family}_{one.kind}": one.fork_rate for family, found in counted.items() for one in found}
    named = {name.replace(", ", "_"): round(rate, 3) for name, rate in rates.items()}
    worst = {
        f"{what}_{size // 1000}k_max": round(max(getattr(found[index], what) for found in costs.values()), 2)
        for index, size in enumerate(SIZES)
        for what in ("first_ms", "next_ms", "stall_ms")
    }
    return {"hard_mismatches": float(sum(one.mismatches for one in every)), **worst, **named}
