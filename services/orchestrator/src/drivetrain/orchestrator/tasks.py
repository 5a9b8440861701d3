"""A task in one file: what the agent is asked, what lies in its work folder, and how its work is verified."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from drivetrain.orchestrator.declarations import BadDeclaration, check_path, declare, read_toml

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Text = Annotated[str, Meta(min_length=1)]
COMMAND_HARNESS = "command"


class Verify(msgspec.Struct, frozen=True, kw_only=True):
    """How a task's work is graded, in a fresh copy of the work folder.

    `command` runs under /bin/sh. `files` are added only then, over what the agent left. Without `reward_file`, exit
    status 0 is outcome 1 and any other -1; with it, the command writes a number in [0, 1] there, which is the outcome.
    """

    command: Text
    timeout_s: Seconds = 60.0
    files: dict[str, str] = {}
    reward_file: str | None = None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One task. `command` is the shell command of the harness `command`, and of no other harness."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_.-]{0,99}$")]
    instruction: Text
    verify: Verify
    harness: Text = COMMAND_HARNESS
    command: Text | None = None
    timeout_s: Seconds = 600.0
    files: dict[str, str] = {}


def parse_task(data: Mapping[str, Any], where: str = "the task") -> Task:
    """A task from the content of a task file.

    Raises:
        BadDeclaration: it cannot be run; the message names the key and the remedy.
    """
    task = declare(data, Task, where)
    for path in task.files:
        check_path(path, "files", where)
    for path in task.verify.files:
        check_path(path, "verify.files", where)
    if task.verify.reward_file is not None:
        check_path(task.verify.reward_file, "verify.reward_file", where)
    if task.harness == COMMAND_HARNESS and task.command is None:
        raise BadDeclaration(f"{where}: neither harness nor command is given: name a harness, or give a command")
    if task.harness != COMMAND_HARNESS and task.command is not None:
        raise BadDeclaration(f"{where}: command belongs to the harness 'command', not to {task.harness!r}: remove one")
    return task


def load_task(path: Path) -> Task:
    """A task from a TOML file; see `parse_task` for errors."""
    return parse_task(read_toml(path), str(path))
