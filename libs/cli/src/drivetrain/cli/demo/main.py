"""The demo as a program: start a stack, run the experiment on it, report, and leave the machine as it was."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from drivetrain.cli.commands.up import show_event
from drivetrain.cli.demo.evaluate import ProbeFailed
from drivetrain.cli.demo.experiment import Experiment, Plan
from drivetrain.cli.demo.plots import save_png
from drivetrain.cli.demo.report import print_clients, print_report
from drivetrain.cli.demo.result import Result
from drivetrain.cli.demo.taste import BadTaste, Taste, load_taste
from drivetrain.cli.errors import CliError
from drivetrain.cli.interrupt import run_until_signal
from drivetrain.cli.models import prepare_model
from drivetrain.cli.paths import new_run_dir
from drivetrain.cli.stack import Stack, StackConfig
from drivetrain.common.bus import connect
from drivetrain.common.settings import BusSettings

POLICY = "default"

_HINTED = {
    # The base reads the hints: a policy that reads its own grows shorter and shorter, since it always finds itself too
    # long. A hint that says little then pulls back to the base, which the vote outweighs. Steps that get smaller keep
    # the replies answers.
    "HINT__TEACHER": "base",
    "KL__COEFFICIENT": "0.03",
    "OPTIMIZER__LEARNING_RATE": "3e-5",
    "OPTIMIZER__SETTLE_STEPS": "10",
    "PRECISION__COMPUTE": "auto",
}
RECIPES: dict[str, dict[str, str]] = dict.fromkeys(("combine", "opd", "opd_topk", "hybrid"), _HINTED)
"""Where a few minutes with a small model ask for other settings of the trainer than its defaults, by method."""


@dataclass(frozen=True)
class Options:
    """What the command was called with; None where the default depends on the machine or the moment."""

    taste: Path | None
    seed: int
    sessions: int
    updates: int | None
    heldout: int
    minutes: float
    method: str
    model: str | None
    run_dir: Path | None
    port: int
    keep: bool


@dataclass
class _Outcome:
    result: Result | None = None


def run_demo(options: Options) -> int:
    """Run the demo to its end; the command's exit status.

    Raises:
        CliError: a taste or model that cannot be used, a stack that does not start or fails, or no time left.
    """
    began, console = time.monotonic(), Console()
    try:
        taste = load_taste(options.taste)
    except BadTaste as error:
        raise CliError(str(error), status=2) from error
    model = prepare_model(options.model, notify=lambda line: console.print(line, markup=False))
    plan = _plan(options, taste, model, began)
    outcome = _Outcome()
    status = run_until_signal(_run(plan, options, console, began, outcome))
    return exit_status(status, outcome.result)


def _plan(options: Options, taste: Taste, model: str, began: float) -> Plan:
    return Plan(
        taste=taste,
        seed=options.seed,
        sessions=options.sessions,
        updates=options.updates,
        heldout=options.heldout,
        deadline=began + 60 * options.minutes,
        method=options.method,
        model=model,
        policy=POLICY,
        run_dir=(options.run_dir or new_run_dir("demo")).absolute(),
    )


def _settings(plan: Plan) -> dict[str, dict[str, str]]:
    return {"trainer": RECIPES.get(plan.method, {})}


def exit_status(status: int, result: Result | None) -> int:
    """The command's status: that of the signal that ended it, unless the demo was over by then; 1 when the loop failed
    somebody. A small gain is not a failure."""
    if result is None:
        return status
    return 1 if result.troubles or not result.updates else 0


async def _run(plan: Plan, options: Options, console: Console, began: float, outcome: _Outcome) -> None:
    config = StackConfig(plan.run_dir, plan.model, plan.policy, plan.method, options.port, plan.seed, _settings(plan))
    console.print(f"Taste: {plan.taste.about}.", markup=False, soft_wrap=True)
    console.print(f"Logs and data: {plan.run_dir}", markup=False, soft_wrap=True)
    async with Stack(config, lambda event: show_event(console, event)) as stack, stack.guard():
        outcome.result = await _experiment(plan, stack, console, began)
        await asyncio.to_thread(save_png, outcome.result)
        outcome.result.write()
        print_report(console, outcome.result)
        print_clients(console, stack.urls.proxy, plan.policy)
        if options.keep:
            console.print("\nThe stack keeps running. Ctrl-C ends it.")
            await stack.wait()
    if not options.keep:
        console.print("\nThe stack has ended; with --keep it goes on running.")


async def _experiment(plan: Plan, stack: Stack, console: Console, began: float) -> Result:
    bus = await connect(BusSettings(url=stack.urls.nats))
    try:
        async with asyncio.timeout(plan.deadline - time.monotonic()) as bound:
            return await Experiment(plan, stack.urls, bus, console, began).run()
    except TimeoutError:
        if not bound.expired():
            raise
        raise CliError(f"the demo did not end within --minutes; its logs are in {plan.run_dir / 'logs'}") from None
    except ProbeFailed as error:
        raise CliError(f"{error}; see {stack.log('vllm')}") from error
    finally:
        await bus.close()
