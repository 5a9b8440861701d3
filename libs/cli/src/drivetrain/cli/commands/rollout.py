"""`drivetrain rollout`: where rollouts stand, what they printed, ending them, and removing what was left of them."""

import asyncio
import importlib.util
import subprocess
import sys
import time
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drivetrain.cli.commands.connection import BusUrl, open_bus
from drivetrain.cli.errors import CliError
from drivetrain.cli.rollouts import Standing, cancel, finished, standings
from drivetrain.common.events import RolloutFinished

rollout = typer.Typer(help="Rollouts: list, logs, cancel, gc.", no_args_is_help=True)

RunName = Annotated[str, typer.Argument(help="The run, as `drivetrain run` printed it.", metavar="RUN")]


@rollout.command("list")
def list_rollouts(
    run: Annotated[str, typer.Argument(help="A run; without it, all that the bus remembers.", metavar="[RUN]")] = "*",
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Only those that have not ended.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, one object a line.")] = False,
    bus: BusUrl = None,
) -> None:
    """Say where rollouts stand."""
    found = [one for one in asyncio.run(_standings(bus, run)) if not unfinished or one.state != "finished"]
    if as_json:
        for one in found:
            print(msgspec.json.encode(one).decode())
        return
    table = Table("run", "rollout", "state", "attempt", "outcome", "seconds", "detail", box=None)
    table.columns[0].no_wrap = table.columns[2].no_wrap = True
    for one in found:
        table.add_row(*map(escape, _row(one)))
    Console().print(table if found else "No rollouts.")


@rollout.command()
def logs(
    run: RunName,
    number: Annotated[str, typer.Argument(help="The rollout in it.", metavar="ROLLOUT")],
    bus: BusUrl = None,
) -> None:
    """Print the end of what a finished rollout's harness printed."""
    found = asyncio.run(_finished(bus, run, number))
    if found is None:
        raise CliError(f"rollout {number} of run {run} has not finished (`drivetrain rollout list {run}`)")
    print(found.log)


@rollout.command("cancel")
def cancel_rollouts(
    run: RunName,
    numbers: Annotated[list[str] | None, typer.Argument(help="Rollouts in it; without any, all.")] = None,
    why: Annotated[str, typer.Option(help="The reason, for their ends.")] = "",
    bus: BusUrl = None,
) -> None:
    """End rollouts that run or wait. What they did is not graded."""
    print(f"Cancelled {asyncio.run(_cancel(bus, run, numbers, why))}.")


@rollout.command()
def gc() -> None:
    """Remove sandboxes that no rollout needs any more. Takes the orchestrator's settings (DRIVETRAIN_ORCHESTRATOR_…).

    The orchestrator does the same whenever it starts: this is for a machine or a cluster where none will run again."""
    if importlib.util.find_spec("drivetrain.orchestrator") is None:
        raise CliError("the orchestrator is not installed in this environment: pip install drivetrain-orchestrator")
    command = [sys.executable, "-m", "drivetrain.orchestrator", "gc"]
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def _row(one: Standing) -> list[str]:
    outcome = "" if one.outcome is None else f"{one.outcome:+.2f}"
    seconds = "" if one.seconds is None else f"{one.seconds:.1f}"
    return [
        *(one.run, one.rollout, one.reason or one.state, str(one.attempt), outcome, seconds),
        one.detail[:80],
    ]


async def _standings(url: str | None, run: str) -> list[Standing]:
    async with open_bus(url) as bus:
        return await standings(bus, run)


async def _finished(url: str | None, run: str, number: str) -> RolloutFinished | None:
    async with open_bus(url) as bus:
        return await finished(bus, run, number)


async def _cancel(url: str | None, run: str, numbers: list[str] | None, why: str) -> int:
    async with open_bus(url) as bus:
        found = await standings(bus, run)
        if unknown := set(numbers or ()) - {one.rollout for one in found}:
            raise CliError(f"run {run} has no rollout {', '.join(sorted(unknown))} (`drivetrain rollout list {run}`)")
        if not found:
            raise CliError(f"there is no run {run} (`drivetrain rollout list`)")
        chosen = [one for one in found if not numbers or one.rollout in numbers]
        return await cancel(bus, chosen, why, time.time())
