"""`drivetrain up`: the whole stack on this machine, in the foreground."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from drivetrain.cli.interrupt import run_until_signal
from drivetrain.cli.lock import require_free_lock
from drivetrain.cli.models import prepare_model
from drivetrain.cli.paths import data_dir, new_run_dir
from drivetrain.cli.stack import ProcessEvent, Stack, StackConfig
from drivetrain.cli.stack.config import PROXY_PORT

STYLES = {"ready": "green", "crashed": "red", "gave_up": "bold red", "restarting": "yellow"}


def up(
    model: Annotated[
        str | None, typer.Option(help="A model folder or a name on the hub. The default is SmolLM2-135M-Instruct.")
    ] = None,
    policy: Annotated[str, typer.Option(help="What the model in training is called, as clients name it.")] = "default",
    method: Annotated[
        str, typer.Option(help="The training method: binary, opd, combine, opd_topk or hybrid.")
    ] = "combine",
    run_dir: Annotated[
        Path | None, typer.Option(help="Where logs, events and checkpoints go; an earlier run's folder continues it.")
    ] = None,
    port: Annotated[int, typer.Option(help="The port that clients talk to; 0 takes a free one.")] = PROXY_PORT,
    seed: Annotated[int, typer.Option(help="Seed of sampling.")] = 0,
    vllm_arg: Annotated[
        list[str] | None,
        typer.Option(help="A flag for vLLM, such as --vllm-arg=--max-model-len=8192; repeat it for more."),
    ] = None,
) -> None:
    """Start NATS, Valkey, vLLM and Drivetrain's services, and keep them running until Ctrl-C."""
    console = Console()
    require_free_lock(data_dir())
    folder = prepare_model(model, notify=lambda line: console.print(escape(line)))
    config = StackConfig(
        run_dir=run_dir or new_run_dir("up"),
        model=folder,
        policy=policy,
        method=method,
        proxy_port=port,
        seed=seed,
        vllm_args=tuple(vllm_arg or ()),
    )
    status = run_until_signal(_run(config, console))
    console.print("Stopped.")
    sys.exit(status)


async def _run(config: StackConfig, console: Console) -> None:
    began = time.monotonic()
    console.print(f"Logs and data: {escape(str(config.run_dir))}", soft_wrap=True)
    async with Stack(config, lambda event: show_event(console, event)) as stack:
        console.print(f"Ready in {time.monotonic() - began:.0f} s. Ctrl-C ends it.\n")
        for line in connection_lines(stack.urls.proxy, config.policy):
            console.print(escape(line), soft_wrap=True)
        await stack.wait()


def connection_lines(proxy: str, policy: str) -> list[str]:
    """What to set in an OpenAI-compatible client."""
    return [f"OPENAI_BASE_URL={proxy}/v1", "OPENAI_API_KEY=local", f"model: {policy}"]


def show_event(console: Console, event: ProcessEvent) -> None:
    """One line for each change in a process's life, and the end of its log when it crashed. When a process is given up
    the error that ends the command shows its log."""
    style = STYLES.get(event.kind, "dim")
    words = f"{event.process:<13}{event.kind.replace('_', ' ')}"
    after = f" after {event.seconds:.1f} s" if event.kind in ("ready", "stopped") else ""
    detail = f": {event.message}" if event.message and event.kind != "gave_up" else ""
    console.print(f"[{style}]{escape(words + after + detail)}[/]", soft_wrap=True, highlight=False)
