"""`drivetrain run`: one task, run once or as a group, followed to its end."""

import asyncio
import time
import tomllib
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from drivetrain.cli.commands.connection import BusUrl, open_bus
from drivetrain.cli.errors import CliError
from drivetrain.cli.follow import Task, follow, group_requests
from drivetrain.cli.stack import running
from drivetrain.common.events import DeadLetter, Event, RolloutFinished, RolloutStarted
from drivetrain.common.identity import new_id

QUEUE_S = 120.0
"""How much longer than its own timeout a rollout may take: waiting for its turn, and being verified."""


def run(
    task: Annotated[Path, typer.Argument(help="A task file (TOML).", metavar="TASK.toml")],
    policy: Annotated[str | None, typer.Option(help="The policy; without it, that of the running stack.")] = None,
    count: Annotated[int, typer.Option(help="Run the task this often, as one group that is compared.", min=1)] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds for each rollout; the task's own limit holds too.")] = 3600.0,
    bus: BusUrl = None,
) -> None:
    """Run a task with its harness against the policy. Ends with 0 if every rollout had a positive outcome."""
    content = read_task(task)
    chosen = policy or running().policy
    ends = asyncio.run(_run(bus, content, chosen, count, timeout, Console()))
    good = sum(1 for end in ends if isinstance(end, RolloutFinished) and (end.outcome or 0) > 0)
    print(f"{good} of {count} with a positive outcome")
    raise typer.Exit(0 if good == count else 1)


def read_task(path: Path) -> Task:
    """The content of a task file; the orchestrator checks what is in it.

    Raises:
        CliError: no such file, or it is not TOML.
    """
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise CliError(f"{path} cannot be read: {error.strerror}", status=2) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CliError(f"{path} is not a TOML file: {error}", status=2) from error


async def _run(url: str | None, task: Task, policy: str, count: int, timeout_s: float, console: Console) -> list[Event]:
    ends: list[Event] = []
    async with open_bus(url) as bus:
        requests = group_requests(task, policy, new_id()[:12], count, timeout_s, time.time())
        console.print(f"Requested run {requests[0].rollout.run}, {count} rollouts of {policy}")
        async for event in follow(bus, requests, patience_s=timeout_s + QUEUE_S):
            console.print(escape(_line(event)), soft_wrap=True, highlight=False)
            if not isinstance(event, RolloutStarted):
                ends.append(event)
    return ends


def _line(event: Event) -> str:
    match event:
        case RolloutStarted():
            return f"rollout {event.rollout.rollout} started, session {event.session}"
        case RolloutFinished():
            detail = f" ({event.detail})" if event.detail else ""
            outcome = "no outcome" if event.outcome is None else f"outcome {event.outcome:+.2f}"
            return f"rollout {event.rollout.rollout}: {event.reason}, {outcome}, {event.seconds:.1f} s{detail}"
        case DeadLetter():
            return f"refused: {event.reason} (see `drivetrain dead list`)"
    raise TypeError(f"{type(event).__name__} belongs to no rollout")
