"""`drivetrain dead`: look at what could not be processed, put it back, or drop it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drivetrain.cli.commands.connection import BusUrl, open_bus
from drivetrain.cli.errors import CliError
from drivetrain.cli.letters import Letter, all_letters, drop, one_letter, replay
from drivetrain.common.bus.nats import NatsBus

SHOWN_BYTES = 32

dead = typer.Typer(help="What could not be processed: list, show, replay, drop.", no_args_is_help=True)

Numbers = Annotated[list[int] | None, typer.Argument(help="Numbers from `drivetrain dead list`.")]
All = Annotated[bool, typer.Option("--all", help="All letters.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, one object a line.")]


@dead.command("list")
def list_letters(bus: BusUrl = None, as_json: AsJson = False) -> None:
    """List the dead letters, oldest first."""
    found = asyncio.run(_collect(bus))
    if as_json:
        for item in found:
            print(json.dumps(_summary(item)))
        return
    table = Table("number", "when", "stream", "consumer", "subject", "reason")
    for item in found:
        row = _summary(item)
        when = datetime.fromtimestamp(item.letter.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        words = [str(row[key]) for key in ("stream", "consumer", "subject", "reason")]
        table.add_row(str(row["number"]), when, *map(escape, words))
    Console().print(table if found else "No dead letters.")


@dead.command()
def show(number: Annotated[int, typer.Argument(help="From `drivetrain dead list`.")], bus: BusUrl = None) -> None:
    """Show one dead letter with its payload as JSON."""
    item = asyncio.run(_one(bus, number))
    shown = {**_summary(item), "headers": item.letter.headers, "payload": readable(item.letter.payload)}
    print(json.dumps(shown, indent=2, ensure_ascii=False))


@dead.command("replay")
def replay_letters(numbers: Numbers = None, everything: All = False, bus: BusUrl = None) -> None:
    """Put letters back at the end of their streams, to be processed anew."""
    count = asyncio.run(_each(bus, numbers, everything, replay))
    print(f"Replayed {count}.")


@dead.command("drop")
def drop_letters(
    numbers: Numbers = None,
    everything: All = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    bus: BusUrl = None,
) -> None:
    """Remove letters for good."""
    if everything and not yes:
        typer.confirm("Drop every dead letter?", abort=True)
    count = asyncio.run(_each(bus, numbers, everything, lambda opened, item: drop(opened, item.number)))
    print(f"Dropped {count}.")


def readable(payload: bytes) -> Any:
    """A msgpack payload as JSON-like values, of any version of any event; bytes become their length and first bytes."""
    try:
        return _plain(msgspec.msgpack.decode(payload))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"not msgpack": _plain(payload)}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        more = "…" if len(value) > SHOWN_BYTES else ""
        return f"<{len(value)} bytes {value[:SHOWN_BYTES].hex()}{more}>"
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _summary(item: Letter) -> dict[str, Any]:
    letter = item.letter
    return {
        "number": item.number,
        "at": letter.at,
        "stream": letter.stream,
        "consumer": letter.consumer,
        "subject": letter.subject_of,
        "reason": letter.reason,
    }


async def _collect(url: str | None) -> list[Letter]:
    async with open_bus(url) as bus:
        return [item async for item in all_letters(bus)]


async def _one(url: str | None, number: int) -> Letter:
    async with open_bus(url) as bus:
        return await one_letter(bus, number)


async def _each(
    url: str | None, numbers: list[int] | None, everything: bool, act: Callable[[NatsBus, Letter], Awaitable[None]]
) -> int:
    if everything == bool(numbers):
        raise CliError("name the letters by number, or give --all", status=2)
    async with open_bus(url) as bus:
        chosen = [item async for item in all_letters(bus)] if everything else []
        chosen += [await one_letter(bus, number) for number in numbers or []]
        for item in chosen:
            await act(bus, item)
    return len(chosen)
