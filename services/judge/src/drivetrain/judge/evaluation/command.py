"""`python -m drivetrain.judge eval FILE…`: print how the judge, as configured, does on labelled turns."""

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
from prometheus_client import REGISTRY

from drivetrain.common.settings import load
from drivetrain.judge.app import sources
from drivetrain.judge.chain import Chain
from drivetrain.judge.evaluation.labelled import BadSet, Labelled, read
from drivetrain.judge.evaluation.measure import measure
from drivetrain.judge.evaluation.report import Cost, Report, report
from drivetrain.judge.evaluation.table import table
from drivetrain.judge.settings import JudgeSettings

USAGE = """usage: drivetrain judge eval FILE… [--json] [settings of the judge, such as --config or --model.enabled]
FILE holds labelled turns, a JSON object a line (services/judge/labels)"""
SEED = 0
"""Of the bootstrap, so that a run can be repeated to the digit."""


def main(arguments: Sequence[str]) -> None:
    """Run and print; ends the process with status 2 for settings or a file that cannot be used."""
    files = list(arguments[: _flags_from(arguments)])
    flags = list(arguments[len(files) :])
    if not files:
        sys.stderr.write(f"{USAGE}\n")
        raise SystemExit(0 if {"-h", "--help"} & set(flags) else 2)
    as_json = "--json" in flags
    settings = load(JudgeSettings, "judge", [flag for flag in flags if flag != "--json"])
    try:
        turns = read([Path(file) for file in files])
    except BadSet as error:
        sys.stderr.write(f"drivetrain judge eval: {error}\n")
        raise SystemExit(2) from None
    found = asyncio.run(evaluate(settings, turns))
    shown = msgspec.json.format(msgspec.json.encode(found)).decode() if as_json else table(found)
    sys.stdout.write(f"{shown}\n")


async def evaluate(settings: JudgeSettings, turns: Sequence[Labelled]) -> Report:
    """The report on labelled turns of the chain that the service runs under these settings."""
    async with AsyncExitStack() as stack:
        chosen, _ = await sources(settings, stack)
        before = _counters()
        results = await measure(Chain(chosen), turns, settings.concurrency, time.perf_counter)
        calls, asked, answered, spend = (now - then for now, then in zip(_counters(), before, strict=True))
    cost = Cost(
        seconds_per_turn=sum(result.seconds for result in results) / len(results),
        model_calls=round(calls),
        prompt_tokens=round(asked),
        completion_tokens=round(answered),
        spend=spend,
    )
    return report(settings.judge, results, cost, SEED)


def _flags_from(arguments: Sequence[str]) -> int:
    return next((i for i, argument in enumerate(arguments) if argument.startswith("-")), len(arguments))


def _counters() -> tuple[float, float, float, float]:
    """Calls, prompt tokens, answered tokens and spend of the judge model in this process so far."""
    name = "drivetrain_judge_model"
    calls = sum(_count(f"{name}_calls_total", result=result) for result in ("answered", "failed"))
    tokens = [_count(f"{name}_tokens_total", kind=kind) for kind in ("prompt", "completion")]
    return calls, tokens[0], tokens[1], _count(f"{name}_spend_total")


def _count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0
