"""`drivetrain task`: what the orchestrator's own program does with tasks, for those who look for it here."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from drivetrain.cli.errors import CliError

task = typer.Typer(help="Is this a task?", no_args_is_help=True)


@task.callback()
def _tasks() -> None:
    """Is this a task?"""


@task.command()
def check(
    paths: Annotated[list[Path], typer.Argument(help="A task, a folder of tasks, or a list (.txt).", metavar="PATH…")],
    solution: Annotated[
        bool, typer.Option("--solution", help="Prove that the reference solution earns 1, and doing nothing does not.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
    jobs: Annotated[int, typer.Option(help="Runs at a time.", min=1)] = 2,
    path: Annotated[list[Path] | None, typer.Option(help="A folder of programs that the tasks need.")] = None,
    isolation: Annotated[
        str, typer.Option(help="auto, bubblewrap or none, as in the orchestrator's settings.")
    ] = "auto",
) -> None:
    """Say what is wrong with tasks. Ends with 0 if nothing is."""
    arguments = [*map(str, paths), "--jobs", str(jobs), "--isolation", isolation]
    arguments += [word for folder in path or [] for word in ("--path", str(folder))]
    arguments += ["--solution"] * solution + ["--json"] * as_json
    if importlib.util.find_spec("drivetrain.orchestrator") is None:
        raise CliError("the orchestrator is not installed in this environment: pip install drivetrain-orchestrator")
    command = [sys.executable, "-m", "drivetrain.orchestrator", "check", *arguments]
    raise typer.Exit(subprocess.run(command, check=False).returncode)
