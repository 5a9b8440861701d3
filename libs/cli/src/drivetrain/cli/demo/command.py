"""`drivetrain demo`: what may be asked of it. All the work, and the libraries that it takes, are in `main.py`."""

from pathlib import Path
from typing import Annotated

import typer

from drivetrain.cli.errors import CliError
from drivetrain.cli.stack.config import PROXY_PORT

SESSIONS = 320
MINUTES = 15.0
HELDOUT = 72
"""All held-out questions that there are."""
LIBRARIES = frozenset({"matplotlib", "openai", "plotext"})
"""What only the demo needs."""


def demo(
    taste: Annotated[
        Path | None, typer.Option(help="A TOML file, or the name of a built-in taste; the default is one-sentence.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the person, of sampling and of training.")] = 0,
    sessions: Annotated[int, typer.Option(min=1, help="Hold at most so many sessions.")] = SESSIONS,
    updates: Annotated[int | None, typer.Option(min=1, help="Stop after so many new versions.")] = None,
    heldout: Annotated[
        int, typer.Option(min=1, max=HELDOUT, help="Ask so many held-out questions before and after.")
    ] = HELDOUT,
    minutes: Annotated[float, typer.Option(min=1, help="End within so many minutes, start and all.")] = MINUTES,
    method: Annotated[str, typer.Option(help="Training: binary, opd, combine, opd_topk or hybrid.")] = "combine",
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
    try:
        from drivetrain.cli.demo.main import Options, run_demo
    except ModuleNotFoundError as error:
        if error.name not in LIBRARIES:
            raise
        raise CliError(f"the demo needs {error.name}: `pip install {error.name}` into this environment") from error
    options = Options(
        taste=taste,
        seed=seed,
        sessions=sessions,
        updates=updates,
        heldout=heldout,
        minutes=minutes,
        method=method,
        model=model,
        run_dir=run_dir,
        port=port,
        keep=keep,
    )
    raise typer.Exit(run_demo(options))
