"""`drivetrain weights`: a policy's versions: list, show, compare, pin, go back to one, collect old ones."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from drivetrain.cli.commands.connection import BusUrl, open_bus
from drivetrain.cli.stack import running
from drivetrain.cli.versions import Back, Row, difference, open_archive, roll_back, row, rows
from drivetrain.common.store.archive import Archive
from drivetrain.common.store.collecting import Removed, collect
from drivetrain.common.store.lives import Lives, read_lives
from drivetrain.common.store.retention import Retention

T = TypeVar("T")
DAY_S = 86_400.0

weights = typer.Typer(help="Versions of a policy: list, show, diff, pin, unpin, rollback, gc.", no_args_is_help=True)

Url = Annotated[
    str | None,
    typer.Option("--archive", help="The archive, by URL.", envvar="DRIVETRAIN_WEIGHTS_ARCHIVE__URL"),
]
Policy = Annotated[
    str | None,
    typer.Option("--policy", help="Without it, that of the running stack.", envvar="DRIVETRAIN_WEIGHTS_POLICY"),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON.")]
Version = Annotated[int, typer.Argument(help="From `drivetrain weights list`.")]


@weights.command("list")
def list_versions(archive: Url = None, policy: Policy = None, bus: BusUrl = None, as_json: AsJson = False) -> None:
    """List the archived versions, oldest first."""
    found: list[Row] = _with_both(archive, policy, bus, rows)
    if as_json:
        for one in found:
            print(msgspec.json.encode(one).decode())
        return
    table = Table("version", "state", "kind", "parent", "step", "stored", "when")
    for one in found:
        state = (one.state or "unknown") + (", pinned" if one.pinned else "")
        words = (str(one.version), state, one.kind, str(one.parent), str(one.step), _megabytes(one.stored_bytes))
        table.add_row(*words, _when(one.stored_at))
    Console().print(table if found else "No versions.")


@weights.command()
def show(
    version: Version, archive: Url = None, policy: Policy = None, bus: BusUrl = None, as_json: AsJson = False
) -> None:
    """Show one version: what the trainer said of it, its tensors, and how it is stored."""

    async def find(opened: Archive, lives: Lives) -> dict[str, Any]:
        record = await opened.record(version)
        life = row(record, lives, version in await opened.pins())
        return {**msgspec.to_builtins(life), "record": msgspec.to_builtins(record)}

    found = _with_both(archive, policy, bus, find)
    if as_json:
        _print_json(found)
        return
    checkpoint = found["record"]["checkpoint"]
    shown = {name: value for name, value in found.items() if name != "record"}
    shown |= {"stored_at": _when(found["stored_at"]), "base": checkpoint["base"], "dtype": checkpoint["dtype"]}
    shown |= {"tensors": len(found["record"]["tensors"]), "files": len(checkpoint["files"]), **checkpoint["metrics"]}
    for name, value in shown.items():
        print(f"{name.replace('_', ' ')}: {value}")


@weights.command()
def diff(first: Version, second: Version, archive: Url = None, policy: Policy = None, as_json: AsJson = False) -> None:
    """Show what changed from one version to another: tensors, bytes, metrics."""

    async def compare(opened: Archive) -> Any:
        return difference(await opened.record(first), await opened.record(second))

    found = _with_archive(archive, policy, compare)
    if as_json:
        _print_json(found)
        return
    changed = f"{len(found.changed)} tensors changed ({_megabytes(found.changed_bytes)})"
    print(f"{found.steps} steps; {changed}, {found.same} same")
    for title, names in (("only in the first", found.only_first), ("only in the second", found.only_second)):
        if names:
            print(f"{title}: {', '.join(names)}")
    for name, (old, new) in found.metrics.items():
        print(f"{name}: {old} -> {new}")


@weights.command()
def pin(version: Version, archive: Url = None, policy: Policy = None, as_json: AsJson = False) -> None:
    """Never collect a version."""
    _with_archive(archive, policy, lambda opened: opened.pin(version, time.time()))
    _say({"version": version, "pinned": True}, f"Pinned {version}.", as_json)


@weights.command()
def unpin(version: Version, archive: Url = None, policy: Policy = None, as_json: AsJson = False) -> None:
    """Leave a version to retention again."""
    _with_archive(archive, policy, lambda opened: opened.unpin(version))
    _say({"version": version, "pinned": False}, f"{version} is not pinned.", as_json)


@weights.command()
def rollback(
    version: Annotated[int, typer.Argument(help="The version to serve again; 0 is the base model.")],
    reason: Annotated[str, typer.Option(help="Why; it is kept with the versions that are withdrawn.")],
    policy: Policy = None,
    bus: BusUrl = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the decision.")] = 120.0,
    as_json: AsJson = False,
) -> None:
    """Serve an earlier version again and withdraw what was promoted after it."""

    async def ask() -> Back:
        name = policy or running().policy
        async with open_bus(bus) as opened:
            return await roll_back(opened, await read_lives(opened, name), name, version, reason, timeout)

    back = asyncio.run(ask())
    withdrawn = ", ".join(map(str, back.withdrawn))
    _say(msgspec.to_builtins(back), f"{back.policy}@{version} serves again; withdrawn: {withdrawn}.", as_json)


@weights.command()
def gc(
    keep: Annotated[int | None, typer.Option(min=0, help="Keep so many of the newest; without it, all.")] = None,
    max_age: Annotated[float | None, typer.Option(min=0, help="Keep none older than so many days.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    archive: Url = None,
    policy: Policy = None,
    bus: BusUrl = None,
    as_json: AsJson = False,
) -> None:
    """Remove old versions, and what interrupted uploads left. What is pinned, used or needed stays."""
    rule = Retention(keep, None if max_age is None else max_age * DAY_S)

    async def remove(opened: Archive, lives: Lives) -> Removed:
        now = time.time()
        return await collect(opened, rule, lives.used(now), now, dry_run)

    removed: Removed = _with_both(archive, policy, bus, remove)
    numbers = ", ".join(map(str, removed.versions)) or "none"
    verb = "Would remove" if dry_run else "Removed"
    text = f"{verb} versions: {numbers}; {removed.blobs} blobs, {_megabytes(removed.bytes)}."
    _say(msgspec.to_builtins(removed), text, as_json)


def _with_archive(url: str | None, policy: str | None, act: Callable[[Archive], Awaitable[T]]) -> T:
    async def acted() -> T:
        async with open_archive(url, policy or running().policy) as opened:
            return await act(opened)

    return asyncio.run(acted())


def _with_both(
    url: str | None, policy: str | None, bus: str | None, act: Callable[[Archive, Lives], Awaitable[T]]
) -> T:
    async def acted() -> T:
        name = policy or running().policy
        async with open_archive(url, name) as opened, open_bus(bus) as connected:
            return await act(opened, await read_lives(connected, name))

    return asyncio.run(acted())


def _say(fact: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        _print_json(fact)
    else:
        print(text)


def _print_json(value: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(value)).decode())


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _when(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
