"""`drivetrain harness`: which harnesses there are, install one, and prove that it works with the proxy."""

import asyncio
import json
import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from drivetrain.cli.commands.connect import Dialect, Folder, find_harness
from drivetrain.cli.commands.connection import BusUrl, open_bus
from drivetrain.cli.connecting.programs import find, install, installed_version
from drivetrain.cli.connecting.trying import Trial, run_once
from drivetrain.cli.connecting.values import resolve
from drivetrain.cli.errors import CliError
from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.events import TurnRecorded, encode
from drivetrain.common.harnesses import Harness, load_harnesses
from drivetrain.common.identity import new_id

harness = typer.Typer(help="Harnesses: list, install, check.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The harness.", metavar="HARNESS")]
RECORDED_S = 10.0
"""How long a turn may take from the end of its harness to the bus."""
PAUSE_S = 0.25


@harness.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
    harnesses: Folder = None,
) -> None:
    """Which harnesses are known, and which of them are on this machine."""
    try:
        known = load_harnesses(harnesses or [])
    except BadDeclaration as error:
        raise CliError(str(error), status=2) from error
    rows = [_row(found) for found in known.values()]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("harness", "dialects", "tested", "here", "note")
    for row in rows:
        here = row["installed"] or ("yes" if row["program"] else "")
        table.add_row(row["name"], ", ".join(row["dialects"]), row["tested"] or "untested", here, row["note"])
    Console().print(table)
    print("`drivetrain harness install NAME` brings the tested version of one here")


@harness.command("install")
def install_(name: Name, harnesses: Folder = None) -> None:
    """Install the tested version into a folder of Drivetrain's own; the orchestrator of `up` finds it there."""
    print(install(find_harness(name, harnesses)))


@harness.command()
def check(
    name: Name,
    dialect: Dialect = None,
    proxy: Annotated[str | None, typer.Option(help="The proxy's URL; without it, that of the running stack.")] = None,
    key: Annotated[str | None, typer.Option(help="The API key.", envvar="DRIVETRAIN_API_KEY")] = None,
    model: Annotated[str | None, typer.Option(help="The policy; without it, that of the running stack.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that it may take.", min=1)] = 120.0,
    bus: BusUrl = None,
    harnesses: Folder = None,
) -> None:
    """Let a harness answer one small instruction through the proxy, and see that its calls were recorded."""
    chosen = find_harness(name, harnesses)
    values = resolve(proxy, key, model, None, None)
    word, begun = new_id()[:12], time.time()
    try:
        trial = run_once(chosen, {**values, "instruction": f"Reply with the one word {word}"}, dialect, timeout)
    except BadDeclaration as error:
        raise CliError(str(error), status=2) from error
    turns = asyncio.run(_turns(bus, str(values["model"]), word, begun))
    print(_told(chosen, trial, turns))
    good = bool(turns) and trial.status is not None and chosen.run.end.is_regular(trial.status)
    raise typer.Exit(0 if good else 1)


def _row(found: Harness) -> dict[str, Any]:
    return {
        "name": found.name,
        "title": found.title,
        "dialects": list(found.dialects),
        "tested": found.install.tested,
        "program": find(found),
        "installed": installed_version(found),
        "note": found.note,
    }


async def _turns(url: str | None, policy: str, word: str, begun: float) -> list[TurnRecorded]:
    """The turns since a moment that hold a word; the proxy publishes them a moment after a reply's end."""
    async with open_bus(url) as bus:
        for _ in range(int(RECORDED_S / PAUSE_S)):
            turns = [stored.event async for stored in bus.replay("TURNS", f"turn.recorded.*.{policy}.>", begun - 1)]
            found = [turn for turn in turns if isinstance(turn, TurnRecorded) and word.encode() in encode(turn)]
            if found:
                return found
            await asyncio.sleep(PAUSE_S)
    return []


def _told(chosen: Harness, trial: Trial, turns: list[TurnRecorded]) -> str:
    exact = sum(1 for turn in turns if turn.exact)
    end = "was stopped after its time" if trial.status is None else f"ended with status {trial.status}"
    lines = [f"{chosen.title} {end}; {len(turns)} calls recorded, {exact} with exact tokens"]
    return "\n".join(lines if turns and trial.status == 0 else [*lines, "its last words:", trial.output])
