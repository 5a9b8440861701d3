"""`drivetrain judge`: what the judge's own program does, for those who look for it here."""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from drivetrain.cli.errors import CliError

judge = typer.Typer(help="How good is the judge?", no_args_is_help=True)
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


def delegate(arguments: Sequence[str]) -> int:
    """Run the judge's program with these arguments and return its exit status: the command imports no service.

    Raises:
        CliError: the judge is not installed here.
    """
    if importlib.util.find_spec("drivetrain.judge") is None:
        raise CliError("the judge is not installed in this environment: pip install drivetrain-judge")
    return subprocess.run([sys.executable, "-m", "drivetrain.judge", *arguments], check=False).returncode
