"""`drivetrain status`: how the running stack does."""

import asyncio
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drivetrain.cli.observe import ServiceStatus, StackStatus, observe
from drivetrain.cli.stack import running


def status(as_json: Annotated[bool, typer.Option("--json", help="JSON.")] = False) -> None:
    """Show the running stack: processes, versions served, streams, consumers. Ends with 1 if a service is not ready."""
    seen = asyncio.run(observe(running()))
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(seen)).decode())
    else:
        _show(seen, Console())
    raise typer.Exit(0 if all(service.ready for service in seen.services.values()) else 1)


def _show(seen: StackStatus, console: Console) -> None:
    run = seen.run
    console.print(f"Policy {run.policy} ({run.method}) of {escape(run.model)}", soft_wrap=True)
    console.print(f"Clients: {run.urls.proxy}/v1   run folder: {escape(run.run_dir)}   pid {run.pid}\n", soft_wrap=True)
    console.print(_processes(seen))
    for url, version in seen.versions.items():
        served = "does not answer" if version is None else f"serves version {version}"
        console.print(f"replica {url} {served}")
    console.print(_streams(seen))
    if seen.drift:
        console.print(_drift(seen))


def _processes(seen: StackStatus) -> Table:
    table = Table("process", "pid", "state", "restarts", "health")
    for name, process in seen.run.processes.items():
        service = seen.services.get(name)
        health = _health(service) if service else ""
        table.add_row(name, str(process.pid or ""), process.state, str(process.restarts), health)
    return table


def _health(service: ServiceStatus) -> str:
    if service.ready:
        return f"ready, without {', '.join(service.without)}" if service.without else "ready"
    if service.live:
        return f"waits for {', '.join(service.waiting_for)}"
    return "does not answer"


def _drift(seen: StackStatus) -> Table:
    total = sum(one.prompts for one in seen.drift)
    table = Table("drift", "cause", "prompts", "share")
    for one in seen.drift:
        table.add_row(one.drift, one.cause, str(one.prompts), f"{one.prompts / total:.1%}")
    return table


def _streams(seen: StackStatus) -> Table:
    table = Table("stream", "messages", "kB", "consumer", "pending", "unacknowledged")
    for column in (table.columns[0], table.columns[3]):
        column.overflow = "fold"  # names are for copying
    for name, stream in seen.streams.items():
        size = (str(stream.messages), f"{stream.bytes / 1000:.0f}")
        consumers = [(n, c) for n, c in seen.consumers.items() if c.stream == name]
        if not consumers:
            table.add_row(name, *size, "", "", "")
        for index, (consumer, lag) in enumerate(consumers):
            head = (name, *size) if index == 0 else ("", "", "")
            table.add_row(*head, consumer, str(lag.pending), str(lag.unacknowledged))
    return table
