"""`drivetrain demo`: the main job, with a scripted person, from start to end."""

import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from drivetrain.cli.commands.up import show_event
from drivetrain.cli.demo.evaluate import ProbeFailed
from drivetrain.cli.demo.experiment import Experiment, Plan
from drivetrain.cli.demo.plots import save_png
from drivetrain.cli.demo.report import print_clients, print_report
from drivetrain.cli.demo.result import Result
from drivetrain.cli.demo.taste import BadTaste, load_taste
from drivetrain.cli.errors import CliError
from drivetrain.cli.interrupt import run_until_signal
from drivetrain.cli.models import prepare_model
from drivetrain.cli.paths import new_run_dir
from drivetrain.cli.stack import Stack, StackConfig
from drivetrain.cli.stack.config import PROXY_PORT
from drivetrain.common.bus import connect
from drivetrain.common.settings import BusSettings

SESSIONS = 220
MINUTES = 15.0


@dataclass
class _Outcome:
    result: Result | None = None


def demo(
    taste: Annotated[
        Path | None, typer.Option(help="A TOML file, or the name of a built-in taste; the default is one-sentence.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the person, of sampling and of training.")] = 0,
    sessions: Annotated[int, typer.Option(min=1, help="Hold at most so many sessions.")] = SESSIONS,
    updates: Annotated[int | None, typer.Option(min=1, help="Stop after so many new versions.")] = None,
    minutes: Annotated[float, typer.Option(min=1, help="End within so many minutes, start and all.")] = MINUTES,
    method: Annotated[str, typer.Option(help="The training method: binary, opd or combine.")] = "combine",
    model: Annotated[
        str | None, typer.Option(help="A model folder or a name on the hub. The default is SmolLM2-135M-Instruct.")
    ] = None,
    run_dir: Annotated[Path | None, typer.Option(help="Where result, plot, logs and checkpoints go.")] = None,
    port: Annotated[int, typer.Option(help="The port that clients talk to; 0 takes a free one.")] = PROXY_PORT,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack running until Ctrl-C.")] = False,
) -> None:
    """A scripted person talks to a model, objects in words, and the model adapts while it is used.

    Ends with status 1 when a request failed, was cut or aborted, or when no new version went live.
    """
    began, console = time.monotonic(), Console()
    try:
        liked = load_taste(taste)
    except BadTaste as error:
        raise CliError(str(error), status=2) from error
    plan = Plan(
        taste=liked,
        seed=seed,
        sessions=sessions,
        updates=updates,
        deadline=began + 60 * minutes,
        method=method,
        model=prepare_model(model, notify=lambda line: console.print(line, markup=False)),
        policy="default",
        run_dir=(run_dir or new_run_dir("demo")).absolute(),
    )
    outcome = _Outcome()
    status = run_until_signal(_run(plan, port, keep, console, began, outcome))
    sys.exit(exit_status(status, outcome.result))


def exit_status(status: int, result: Result | None) -> int:
    """The command's status: that of the signal that ended it, unless the demo was over by then; 1 when the loop failed
    somebody. A small gain is not a failure."""
    if result is None:
        return status
    return 1 if result.troubles or not result.updates else 0


async def _run(plan: Plan, port: int, keep: bool, console: Console, began: float, outcome: _Outcome) -> None:
    config = StackConfig(plan.run_dir, plan.model, plan.policy, plan.method, port, plan.seed)
    console.print(f"Taste: {plan.taste.about}.", markup=False, soft_wrap=True)
    console.print(f"Logs and data: {plan.run_dir}", markup=False, soft_wrap=True)
    async with Stack(config, lambda event: show_event(console, event)) as stack, stack.guard():
        outcome.result = await _experiment(plan, stack, console, began)
        await asyncio.to_thread(save_png, outcome.result)
        outcome.result.write()
        print_report(console, outcome.result)
        print_clients(console, stack.urls.proxy, plan.policy)
        if keep:
            console.print("\nThe stack keeps running. Ctrl-C ends it.")
            await stack.wait()
    if not keep:
        console.print("\nThe stack has ended; with --keep it goes on running.")


async def _experiment(plan: Plan, stack: Stack, console: Console, began: float) -> Result:
    bus = await connect(BusSettings(url=stack.urls.nats))
    try:
        async with asyncio.timeout(plan.deadline - time.monotonic()):
            return await Experiment(plan, stack.urls, bus, console, began).run()
    except TimeoutError:
        raise CliError(f"the demo did not end within --minutes; its logs are in {plan.run_dir / 'logs'}") from None
    except ProbeFailed as error:
        raise CliError(f"{error}; see {stack.log('vllm')}") from error
    finally:
        await bus.close()
