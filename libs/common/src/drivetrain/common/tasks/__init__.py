"""Tasks: what an agent is asked, what lies in its work folder, and how its work is graded."""

from drivetrain.common.tasks.reading import load_task, load_tasks, task_paths
from drivetrain.common.tasks.task import (
    COMMAND_HARNESS,
    Resources,
    Service,
    Solution,
    Task,
    Verify,
    fixed_places,
    parse_task,
    plain,
)

__all__ = [
    "COMMAND_HARNESS",
    "Resources",
    "Service",
    "Solution",
    "Task",
    "Verify",
    "fixed_places",
    "load_task",
    "load_tasks",
    "parse_task",
    "plain",
    "task_paths",
]
