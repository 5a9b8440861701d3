"""`drivetrain run`: tasks, each run once or as a group, followed to their ends."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from drivetrain.cli.commands.connection import BusUrl, open_bus
from drivetrain.cli.errors import CliError
from drivetrain.cli.follow import Task, follow, group_requests
from drivetrain.cli.stack import running
from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.events import DeadLetter, Event, RolloutFinished, RolloutMoved, RolloutStarted
from drivetrain.common.identity import new_id
from drivetrain.common.tasks import load_tasks, plain

QUEUE_S = 120.0
"""How much longer than its own timeout a rollout may take: waiting for its turn, and being verified."""


def run(
    tasks: Annotated[Path, typer.Argument(help="A task (YAML, or a folder with a task.toml), or a folder of them.")],
    policy: Annotated[str | None, typer.Option(help="The policy; without it, that of the running stack.")] = None,
    harness: Annotated[str | None, typer.Option(help="Who works on the tasks; a task may name its own.")] = None,
    command: Annotated[str | None, typer.Option(help="The shell command of the harness `command`.")] = None,
    count: Annotated[
        int, typer.Option("--count", "--group", help="Run each task this often, as one group that is compared.", min=1)
    ] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds for each rollout; the task's own limit holds too.")] = 3600.0,
    bus: BusUrl = None,
) -> None:
    """Run tasks with a harness against the policy. Ends with 0 if every rollout had a positive outcome."""
    contents = read_tasks(tasks, harness, command)
    chosen = policy or running().policy
    ends = asyncio.run(_run(bus, contents, chosen, count, timeout, Console()))
    good = sum(1 for end in ends if isinstance(end, RolloutFinished) and (end.outcome or 0) > 0)
    total = len(contents) * count
    print(f"{good} of {total} with a positive outcome")
    raise typer.Exit(0 if good == total else 1)


def read_tasks(path: Path, harness: str | None, command: str | None) -> list[Task]:
    """The tasks of a path as requests carry them; `harness` and `command` take the place of what a task names.

    Raises:
        CliError: there is none, or one is bad.
    """
    try:
        tasks = [plain(task) for task in load_tasks(path)]
    except BadDeclaration as error:
        raise CliError(str(error), status=2) from error
    if harness is None and command is None:
        return tasks
    chosen = {key: value for key, value in (("harness", harness), ("command", command)) if value is not None}
    return [{key: value for key, value in task.items() if key not in ("harness", "command")} | chosen for task in tasks]


async def _run(
    url: str | None, tasks: Sequence[Task], policy: str, count: int, timeout_s: float, console: Console
) -> list[Event]:
    ends: list[Event] = []
    async with open_bus(url) as bus:
        requests = group_requests(tasks, policy, new_id()[:12], count, timeout_s, time.time())
        console.print(f"Requested run {requests[0].rollout.run}, {len(requests)} rollouts of {policy}")
        async for event in follow(bus, requests, patience_s=timeout_s + QUEUE_S):
            if line := _line(event):
                console.print(escape(line), soft_wrap=True, highlight=False)
            if not isinstance(event, RolloutStarted | RolloutMoved):
                ends.append(event)
    return ends


def _line(event: Event) -> str:
    match event:
        case RolloutStarted():
            return f"rollout {event.rollout.rollout} started, session {event.session}"
        case RolloutMoved():
            again = f"rollout {event.rollout.rollout}: attempt {event.attempt} failed, and is repeated ({event.detail})"
            return again if event.state == "waiting" else ""
        case RolloutFinished():
            detail = f" ({event.detail})" if event.detail else ""
            outcome = "no outcome" if event.outcome is None else f"outcome {event.outcome:+.2f}"
            return f"rollout {event.rollout.rollout}: {event.reason}, {outcome}, {event.seconds:.1f} s{detail}"
        case DeadLetter():
            return f"refused: {event.reason} (see `drivetrain dead list`)"
    raise TypeError(f"{type(event).__name__} belongs to no rollout")
