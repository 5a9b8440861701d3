"""Checks tasks: that they can be read, and that their graders tell the solution from nothing."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import msgspec

from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.events import RolloutState
from drivetrain.common.harnesses.declaration import Harness, Installation, Run
from drivetrain.common.tasks import Task, load_task, task_paths
from drivetrain.orchestrator.lifecycle.rollouts import Ending
from drivetrain.orchestrator.running.runner import Plan, Runner

SHELL = Harness(
    name="solution",
    title="a shell",
    install=Installation(command="true"),
    dialects={"chat": {}},
    run=Run(argv=["/bin/sh", "-c", "{command}"]),
)
NOTHING = ":"


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one task. `solution` and `untouched` are the rewards of the reference solution and of the
    environment that nobody worked in; None where they were not asked for, or there was none. `seconds` is what both
    runs took, grading included."""

    task: str
    problems: tuple[str, ...] = ()
    solution: float | None = None
    untouched: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Read:
    """A task, or why it is none."""

    name: str
    task: Task | None
    problem: str = ""


def read(paths: Iterable[Path]) -> list[Read]:
    """Every task of these paths, good or bad; a name that comes again is a problem of the second."""
    found: list[Read] = []
    for path in chain.from_iterable(map(task_paths, paths)):
        try:
            task = load_task(path)
        except BadDeclaration as error:
            found.append(Read(path.stem, None, str(error)))
            continue
        again = any(task.name == other.name for other in found)
        found.append(Read(task.name, task, f"{path}: another task is named {task.name!r}: rename one" if again else ""))
    return found


async def check(tasks: Sequence[Read], runner: Runner | None, jobs: int) -> list[Checked]:
    """Check tasks, `jobs` runs at a time; without a runner nothing is run."""
    slots = asyncio.Semaphore(jobs)
    return list(await asyncio.gather(*(_check(read, runner, slots) for read in tasks)))


async def _check(read: Read, runner: Runner | None, slots: asyncio.Semaphore) -> Checked:
    task = read.task
    if task is None or read.problem or runner is None:
        return Checked(task=read.name, problems=(read.problem,) if read.problem else ())
    if why := runner.why_not(_plan(task, NOTHING, "untouched")) or _unproved(task):
        return Checked(task=task.name, problems=(why,))
    (untouched, idle_s), (solution, solving_s) = await asyncio.gather(
        _run(task, NOTHING, "untouched", runner, slots), _run(_with_solution(task), None, "solution", runner, slots)
    )
    return Checked(
        task=task.name,
        problems=tuple(_problems(untouched, solution)),
        solution=solution.rewards.get("reward"),
        untouched=untouched.rewards.get("reward"),
        seconds=round(idle_s + solving_s, 3),
    )


def _unproved(task: Task) -> str:
    return "" if task.solution else "it has no reference solution: add solution/solve.sh, or `solution` with a command"


def _with_solution(task: Task) -> Task:
    hints = task.solution.environment if task.solution else {}
    return msgspec.structs.replace(task, environment={**task.environment, **hints})


async def _run(
    task: Task, command: str | None, what: str, runner: Runner, slots: asyncio.Semaphore
) -> tuple[Ending, float]:
    """Let a shell command work on a task, the solution's where none is given; also the seconds that it all took."""
    async with slots:
        begun = time.monotonic()
        return await runner.run(_plan(task, command, what), _unheard), time.monotonic() - begun


def _plan(task: Task, command: str | None, what: str) -> Plan:
    solution = task.solution if command is None else None
    values: dict[str, str | int] = dict.fromkeys(("key", "model"), "none")
    values |= {"instruction": task.instruction, "command": solution.command if solution else NOTHING}
    return Plan(f"{task.name}.{what}", task, SHELL, values, task.timeout_s, solution.files if solution else {})


async def _unheard(state: RolloutState) -> None:
    """Nobody follows a check's states."""


def _problems(untouched: Ending, solution: Ending) -> Iterable[str]:
    if solution.reason != "success":
        yield f"the reference solution {_told(solution)}"
    if untouched.reason not in ("failure", "success"):
        yield f"the untouched environment {_told(untouched)}"
    elif untouched.rewards["reward"] >= 1.0:
        yield "the untouched environment earned 1: the verifier asks for nothing"


def _told(ending: Ending) -> str:
    earned = f"earned {ending.rewards['reward']:g}" if ending.rewards else "has no reward"
    reason = "" if ending.reason == "failure" else f": {ending.fault or ending.reason}"
    return f"{earned}{reason}" + (f": {ending.detail}" if ending.detail else "")
