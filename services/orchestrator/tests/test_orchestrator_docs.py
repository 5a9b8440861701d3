"""What docs/tasks.md shows is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import yaml

from drivetrain.common.events.rollouts import VerifierFault
from drivetrain.common.tasks import parse_task
from drivetrain.common.tasks.schema import OnMachine
from drivetrain.common.tasks.task import Service, Solution, Task, Verify
from drivetrain.orchestrator.backends.base import PLACES

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs/tasks.md").read_text()


def block(language: str) -> str:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", DOCS, flags=re.MULTILINE | re.DOTALL)
    return found[0]


def test_the_worked_example_is_proved_as_shown(tmp_path: Path) -> None:
    script, shown = block("bash"), block("text")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    seconds = re.compile(r"\d+\.\d s")
    assert seconds.sub("", ended.stdout) == seconds.sub("", shown)


def test_the_yaml_example_is_a_task() -> None:
    task = parse_task(yaml.safe_load(block("yaml")))
    assert (task.name, task.files) == ("total", {"numbers.txt": b"19\n23\n"})


def test_every_key_place_and_fault_is_told() -> None:
    containers_only = {"workdir", "resources", "image", "container_only"}
    keys = {*Task.__struct_fields__, *OnMachine.__struct_fields__} - containers_only
    keys |= {f"verify.{key}" for key in Verify.__struct_fields__}
    keys |= {f"solution.{key}" for key in Solution.__struct_fields__} - {"solution.environment"}
    for word in [*keys - {"verify", "solution"}, *get_args(VerifierFault), *Service.__struct_fields__]:
        assert f"`{word}`" in DOCS, word
    for place in set(PLACES) - {"work", "home", "tmp"}:
        assert f"| `/{place}` | `{PLACES[place]}` |" in DOCS


def test_the_number_of_tasks_is_right() -> None:
    assert msgspec.json.encode(len(list((ROOT / "tasks").glob("*/task.toml")))).decode() + " in [tasks/]" in DOCS
