"""The programs that read our manifests, and what they make of them."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
KUSTOMIZATIONS = ("k8s/base", "k8s/overlays/dev", "k8s/tools/model-loader", "k8s/rollouts", "k8s/overlays/jobs")

Document = dict[str, Any]


def tool(name: str) -> str:
    """A checker's path. It is never skipped: a manifest that nothing has read is not known to be valid."""
    # The package's own `docker-compose` script ends with status 0 whatever the program inside said
    pattern = "lib/python*/site-packages/compose/docker-compose" if name == "docker-compose" else f"bin/{name}"
    program = next((ROOT / ".venv-tools").glob(pattern), None)
    if program is None:
        pytest.fail(f"{name} is missing: `make .venv-tools/.ready` installs what deploy/tools.txt pins")
    return str(program)


def run(*command: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a checker in the repository's root, with `given` as its input and none of the caller's settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DRIVETRAIN_", "COMPOSE_"))}
    return subprocess.run(
        command, cwd=ROOT, env=clean, input=given, capture_output=True, text=True, timeout=60, check=False
    )


@cache
def compose(*flags: str) -> Document:
    """`compose.yaml` as the real `docker compose` resolves it."""
    done = run(tool("docker-compose"), *flags, "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@cache
def rendered(folder: str) -> str:
    """A kustomization's objects as the real `kubectl` writes them."""
    done = run(tool("kubectl"), "kustomize", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def objects(folder: str) -> tuple[Document, ...]:
    """The same, read."""
    return tuple(yaml.safe_load_all(rendered(folder)))


def of_kind(folder: str, *kinds: str) -> dict[str, Document]:
    """A kustomization's objects of some kinds, by name."""
    return {item["metadata"]["name"]: item for item in objects(folder) if item["kind"] in kinds}
