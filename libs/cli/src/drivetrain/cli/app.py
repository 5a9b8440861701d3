"""Assembles the `drivetrain` command."""

import importlib.metadata
import sys
from typing import Annotated

import typer

from drivetrain.cli.commands.connect import connect
from drivetrain.cli.commands.dead import dead
from drivetrain.cli.commands.harness import harness
from drivetrain.cli.commands.judge import judge
from drivetrain.cli.commands.k8s import k8s
from drivetrain.cli.commands.keys import keys
from drivetrain.cli.commands.rollout import rollout
from drivetrain.cli.commands.run import run
from drivetrain.cli.commands.status import status
from drivetrain.cli.commands.task import task
from drivetrain.cli.commands.up import up
from drivetrain.cli.commands.weights import weights
from drivetrain.cli.demo.command import demo
from drivetrain.cli.errors import CliError
from drivetrain.common.bus.base import BusError
from drivetrain.common.events import InvalidEvent, NewerVersion

app = typer.Typer(
    name="drivetrain",
    help="Train the model behind an agent while it is used.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(up)
app.command()(demo)
app.command()(status)
app.command()(run)
app.command()(connect)
app.add_typer(dead, name="dead")
app.add_typer(harness, name="harness")
app.add_typer(judge, name="judge")
app.add_typer(k8s, name="k8s")
app.add_typer(keys, name="keys")
app.add_typer(rollout, name="rollout")
app.add_typer(task, name="task")
app.add_typer(weights, name="weights")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"drivetrain {importlib.metadata.version('drivetrain-cli')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Options that come before the command."""


def main() -> None:
    """The console script: errors that the user can act on are one message, not a traceback."""
    try:
        app()
    except CliError as error:
        _fail(error, error.status)
    except (BusError, InvalidEvent, NewerVersion) as error:
        _fail(error, 1)


def _fail(error: Exception, status: int) -> None:
    print(f"drivetrain: {error}", file=sys.stderr)
    raise SystemExit(status)
