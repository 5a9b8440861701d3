"""`drivetrain judge`: what the judge's own program does, for those who look for it here."""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from drivetrain.cli.commands.connection import BusUrl
from drivetrain.cli.errors import CliError
from drivetrain.cli.stack import running

judge = typer.Typer(help="Measure the judge, or have it score again.", no_args_is_help=True)
ANY_OPTION = {"allow_extra_args": True, "ignore_unknown_options": True}


@judge.command("eval", context_settings=ANY_OPTION)
def evaluate(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(help="Labelled turns (JSONL).", metavar="FILE…")],
    as_json: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
) -> None:
    """Run the judge over labelled turns and compare. Other options are the judge's settings, as in --config FILE."""
    names = files[: next((i for i, name in enumerate(files) if name.startswith("-")), len(files))]
    settings = [*files[len(names) :], *context.args]
    raise typer.Exit(delegate(["eval", *names, *(["--json"] if as_json else []), *settings]))


@judge.command("rerun", context_settings=ANY_OPTION)
def rerun(
    context: typer.Context,
    policy: Annotated[str, typer.Option(help="Whose turns.")],
    since: Annotated[str, typer.Option(help="7d, 12h or 90m ago, or a date and time.", metavar="T")],
    bus: BusUrl = None,
) -> None:
    """Score recorded turns again under another judge's id, and print how that differs from the scores there are.

    Other options: --config FILE and the judge's other settings, --until T, --judge ID, --against ID, --dry-run, --json.
    """
    url = ["--bus.url", bus or running().urls.nats]
    raise typer.Exit(delegate(["rerun", "--policy", policy, "--since", since, *url, *context.args]))


def delegate(arguments: Sequence[str]) -> int:
    """Run the judge's program with these arguments and return its exit status: the command imports no service.

    Raises:
        CliError: the judge is not installed here.
    """
    if importlib.util.find_spec("drivetrain.judge") is None:
        raise CliError("the judge is not installed in this environment: pip install drivetrain-judge")
    return subprocess.run([sys.executable, "-m", "drivetrain.judge", *arguments], check=False).returncode
