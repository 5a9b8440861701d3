"""What a task is, whatever file it comes from. A one-file YAML task has exactly these keys, and so has a request."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from drivetrain.common.declarations import BadDeclaration, check_path, declare

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Text = Annotated[str, Meta(min_length=1)]
Files = dict[str, bytes]
"""Relative path → content. One that begins with `#!` is made executable where it is written."""

COMMAND_HARNESS = "command"
MAX_FILES_BYTES = 32 * 1024 * 1024
_FIXED = re.compile(r"(?<!:-)(?<![\w./])/(?:app|tests|logs|solution|service)\b")


class Verify(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a task's work is graded, in a clean sandbox.

    `command` runs under /bin/sh in a copy of the work folder. `files` are put into the folder $TEST_DIR, only there.
    The reward is 1 for exit status 0 and 0 for any other (`status`), or what the command wrote to
    $LOGS_DIR/verifier/reward.json or reward.txt (`file`).
    """

    command: Text
    timeout_s: Seconds = 60.0
    files: Files = {}
    environment: dict[str, str] = {}
    reward: Literal["status", "file"] = "status"


class Service(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server that runs beside the harness. `files` lie in $SERVICE_DIR; `command` runs under /bin/sh in the work
    folder and prints one line to stdout when it is ready."""

    command: Text
    files: Files = {}


class Solution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reference solution: `command` runs under /bin/sh in the work folder, `files` lie in $SOLUTION_DIR."""

    command: Text
    files: Files = {}
    environment: dict[str, str] = {}


class Resources(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a sandbox may use at most; None leaves it to the backend."""

    cpus: Annotated[float, Meta(gt=0)] | None = None
    memory_mb: Annotated[int, Meta(gt=0)] | None = None
    storage_mb: Annotated[int, Meta(gt=0)] | None = None
    gpus: Annotated[int, Meta(ge=0)] | None = None


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task.

    `harness` names who works on it by default; `command` is the shell command of the harness `command`. `files` lie in
    the work folder (`workdir`, where the sandbox can place it) when the shell command `setup` runs there, before the
    harness. A task has a `verify`, or its rollouts are `ranked`: compared with each other by the judge. `needs` are the programs that all of this calls. `artifacts` are the paths that are graded; none means the
    whole work folder. `image` is the container image that holds all this already; `container_only` says why the task
    cannot run without one.
    """

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
    instruction: Text
    verify: Verify | None = None
    ranked: bool = False
    harness: Text | None = None
    command: Text | None = None
    timeout_s: Seconds = 600.0
    files: Files = {}
    setup: Text | None = None
    service: Service | None = None
    needs: tuple[Text, ...] = ()
    environment: dict[str, str] = {}
    artifacts: tuple[str, ...] = ()
    workdir: Annotated[str, Meta(pattern=r"^/[^/\0]+(/[^/\0]+)*$")] = "/app"
    resources: Resources = Resources()
    image: Text | None = None
    container_only: tuple[str, ...] = ()
    solution: Solution | None = None


def parse_task(data: Mapping[str, Any], where: str = "the task") -> Task:
    """A task from plain data; the contents of files may be text or bytes.

    Raises:
        BadDeclaration: it cannot be run; the message names the key and the remedy.
    """
    task = declare(_encoded(data), Task, where)
    if task.verify is None and not task.ranked:
        raise BadDeclaration(f"{where}: verify is missing: add it, or `ranked: true` to have rollouts compared")
    if task.verify is not None and task.ranked:
        raise BadDeclaration(f"{where}: ranked is for tasks without verify: remove one of them")
    for key, files in _all_files(task):
        for path in files:
            check_path(path, key, where)
    for path in task.artifacts:
        check_path(path, "artifacts", where)
    size = sum(len(content) for _, files in _all_files(task) for content in files.values())
    if size > MAX_FILES_BYTES:
        limit = MAX_FILES_BYTES // 1024**2
        raise BadDeclaration(f"{where}: its files hold {size} bytes, more than {limit} MiB: make them in `setup`")
    return task


def plain(task: Task) -> dict[str, Any]:
    """A task as a request carries it: plain data without the solution, which nobody who runs it needs."""
    bare = msgspec.structs.replace(task, solution=None)
    data: dict[str, Any] = _decoded(msgspec.to_builtins(bare, builtin_types=(bytes,)))
    return data


def fixed_places(task: Task) -> str | None:
    """The first of the places of Harbor's containers (/app, /tests, /logs, …) that a task's instruction or scripts name
    as they are, rather than as `${TEST_DIR:-/tests}`; None if it runs wherever its folders lie."""
    return next((found[0] for text in _scripts(task) if (found := _FIXED.search(text))), None)


def _scripts(task: Task) -> Iterator[str]:
    yield from (task.instruction, task.command or "", task.setup or "")
    for script in (task.verify, task.service, task.solution):
        if script is not None:
            yield script.command
    for key, files in _all_files(task):
        if key != "files":
            yield from (content.decode("utf-8", errors="replace") for content in files.values())


def _all_files(task: Task) -> Iterator[tuple[str, Files]]:
    yield "files", task.files
    if task.verify is not None:
        yield "verify.files", task.verify.files
    if task.service is not None:
        yield "service.files", task.service.files
    if task.solution is not None:
        yield "solution.files", task.solution.files


def _encoded(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same data with the texts of files as bytes: there is one type for both."""
    return {
        key: _encoded(value) if key in ("verify", "service", "solution") and isinstance(value, Mapping)
        else {path: text.encode() if isinstance(text, str) else text for path, text in value.items()}
        if key == "files" and isinstance(value, Mapping)
        else value
        for key, value in data.items()
    }  # fmt: skip


def _decoded(value: Any) -> Any:
    """Bytes as text where they are UTF-8, so that people can read what is on the bus."""
    if isinstance(value, dict):
        return {key: _decoded(inner) for key, inner in value.items()}
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value
