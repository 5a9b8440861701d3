"""What each container of ours is given to run with, and what the service itself makes of it."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from drivetrain.common.settings import Settings, resolve
from tests.deploy.tools import ROOT, Document

SERVICES = ("proxy", "judge", "trainer", "weights", "orchestrator")
SECRET = "sixteen characters and more"
SECRET_FILE = "/run/secrets/drivetrain.toml"


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """A Dockerfile as (instruction, argument), continuation lines joined and comments left out."""
    lines = [line for line in dockerfile.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    pairs = [line.partition(" ") for line in joined.splitlines() if line.strip()]
    return [(name, argument.strip()) for name, _, argument in pairs]


def image_environment(service: str) -> dict[str, str]:
    """What a service's image sets by itself."""
    given: dict[str, str] = {}
    for name, argument in instructions(ROOT / "services" / service / "Dockerfile"):
        if name == "ENV":
            given |= {key: value for key, _, value in (pair.partition("=") for pair in argument.split())}
    return given


def container_environment(container: Document) -> dict[str, str]:
    """A Kubernetes container's variables; what comes from the shared Secret has a value of this test."""
    given: dict[str, str] = {}
    for variable in container.get("env", []):
        if "value" in variable:
            given[variable["name"]] = variable["value"]
        else:
            reference = variable["valueFrom"]["secretKeyRef"]
            assert reference == {"name": "drivetrain", "key": "secret"}
            given[variable["name"]] = SECRET
    return given


def settings(service: str, given: Mapping[str, str], secret_file: Path) -> Settings:
    """The settings that a service would resolve, with its image's variables below the container's own.

    Raises:
        BadSettings: the service would refuse to start.
    """
    environ = {**image_environment(service), **given}
    for name, value in environ.items():
        if value == SECRET_FILE:
            environ[name] = str(secret_file)
    module = import_module(f"drivetrain.{service}.settings")
    kind: type[Settings] = getattr(module, f"{service.capitalize()}Settings")
    return resolve(kind, service, [], environ)


def written_folders(service: str, found: Settings) -> list[Path]:
    """The folders that a service with these settings writes to."""
    fields = {"proxy": ["spool.folder"], "trainer": ["store"], "weights": ["store"], "orchestrator": ["work_folder"]}
    return [Path(dig(found, path)) for path in fields.get(service, [])]


def dig(found: object, path: str) -> str:
    """A nested setting by its dotted name, as text."""
    for part in path.split("."):
        found = getattr(found, part)
    return str(found)


def project(folder: Path) -> dict[str, Any]:
    """What a package says about itself."""
    return dict(tomllib.loads((folder / "pyproject.toml").read_text())["project"])


def package_closure(service: str) -> frozenset[str]:
    """All packages that come with a service: those that it and the common library declare, and what these declare."""
    folders = (ROOT / "libs" / "common", ROOT / "services" / service)
    declared = [line for folder in folders for line in project(folder)["dependencies"]]
    return frozenset[str]().union(*(_closure(line) for line in declared))


@cache
def _closure(requirement: str) -> frozenset[str]:
    todo = [(requirement, frozenset({""}))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        line, extras = todo.pop()
        wanted = Requirement(line)
        if wanted.marker and not any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        step = (re.sub("[-_.]+", "-", wanted.name).lower(), frozenset({"", *wanted.extras}))
        if step not in seen:
            seen.add(step)
            todo += [(line, step[1]) for line in _requires(step[0])]
    return frozenset(name for name, _ in seen)


def _requires(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:  # for another platform, or the package of ours that is being read
        return []
