"""`drivetrain k8s`: what the orchestrator's own program does in a cluster, for those who look for it here."""

import importlib.util
import os
import subprocess
import sys
from typing import Annotated

import typer

from drivetrain.cli.errors import CliError

k8s = typer.Typer(help="Rollouts in a Kubernetes cluster.", no_args_is_help=True)


@k8s.callback()
def _cluster() -> None:
    """Rollouts in a Kubernetes cluster."""


@k8s.command()
def check(
    namespace: Annotated[str | None, typer.Option(help="Where the pods would run.")] = None,
    image: Annotated[str | None, typer.Option(help="The image for tasks without one.")] = None,
    context: Annotated[str | None, typer.Option(help="A context of the kubeconfig.")] = None,
    runtime_class: Annotated[str | None, typer.Option(help="A RuntimeClass, such as gvisor.")] = None,
) -> None:
    """Say whether a rollout would get a sandbox: rights, namespace, admission. Takes the orchestrator's settings too
    (DRIVETRAIN_ORCHESTRATOR_KUBERNETES__…). Nothing is made. Ends with 0 if all is well."""
    if importlib.util.find_spec("drivetrain.orchestrator") is None:
        raise CliError("the orchestrator is not installed in this environment: pip install drivetrain-orchestrator")
    given = {"namespace": namespace, "image": image, "context": context, "runtime_class": runtime_class}
    arguments = [f"--kubernetes.{name}={value}" for name, value in given.items() if value is not None]
    prefix = "DRIVETRAIN_ORCHESTRATOR_"
    environment = {f"{prefix}SECRET": "not needed for a check", **os.environ}
    command = [sys.executable, "-m", "drivetrain.orchestrator", "check-cluster", *arguments]
    raise typer.Exit(subprocess.run(command, env=environment, check=False).returncode)
