"""Where tasks are read from: a Harbor folder, a YAML file, a folder of both, or a list of paths."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from drivetrain.common.declarations import BadDeclaration, read_yaml
from drivetrain.common.tasks.harbor import TASK_FILE, read_harbor
from drivetrain.common.tasks.task import Task, parse_task

YAML = (".yaml", ".yml")


def load_tasks(path: Path) -> list[Task]:
    """The tasks of a path: one (a YAML file, or a folder with a task.toml), those in a folder, or those whose paths a
    `.txt` file lists, one a line and relative to it.

    Raises:
        BadDeclaration: a task is bad, two have the same name, or there is none.
    """
    tasks = [load_task(found) for found in task_paths(path)]
    if twice := next((name for name, count in Counter(task.name for task in tasks).items() if count > 1), None):
        raise BadDeclaration(f"{path}: two tasks are named {twice!r}: rename one")
    if not tasks:
        raise BadDeclaration(f"{path} holds no task: a task is a folder with a {TASK_FILE}, or a YAML file")
    return tasks


def load_task(path: Path) -> Task:
    """The one task of a YAML file or of a Harbor folder; see `load_tasks` for errors."""
    if path.is_dir():
        return read_harbor(path)
    if path.suffix not in YAML:
        raise BadDeclaration(f"{path} is no task: give a YAML file, or a folder with a {TASK_FILE}")
    return parse_task(read_yaml(path), str(path))


def task_paths(path: Path) -> Iterator[Path]:
    """Where the tasks of a path lie, in order; see `load_tasks`."""
    if path.suffix == ".txt" and path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            if listed := line.partition("#")[0].strip():
                yield from task_paths(path.parent / listed)
    elif path.is_dir() and not (path / TASK_FILE).exists():
        for entry in sorted(path.iterdir()):
            if (entry / TASK_FILE).exists() or entry.suffix in YAML:
                yield entry
    else:
        yield path
