"""Harbor's task folders: task.toml, instruction.md, environment/, tests/, solution/.

The schema is Harbor's, 1.0 to 1.4; a key that it does not know is refused, where Harbor ignores it. What is ours stands
in `[metadata.drivetrain]`, which Harbor leaves alone: with that table a task also runs without its image.
"""

from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from drivetrain.common.declarations import BadDeclaration, declare, read_toml
from drivetrain.common.tasks.schema import HarborArtifact, HarborEnvironment, HarborTask, OnMachine
from drivetrain.common.tasks.task import Resources, Service, Solution, Task, Verify, parse_task

TASK_FILE = "task.toml"
TEST, SOLVE = "test.sh", "solve.sh"


def read_harbor(folder: Path) -> Task:
    """The task of a folder in Harbor's format.

    Raises:
        BadDeclaration: it lacks a part, a key is unknown, or it asks for what there is not (several steps, Windows).
    """
    where = str(folder / TASK_FILE)
    declared = declare(read_toml(folder / TASK_FILE), HarborTask, where)
    _refuse(declared, where)
    ours = _on_machine(declared, where)
    environment = declared.environment
    if not (folder / "tests" / TEST).is_file():
        raise BadDeclaration(
            f"{folder} has no verifier: add tests/{TEST}, which writes a number in [0, 1] to /logs/verifier/reward.txt"
        )
    workdir = environment.workdir or "/app"
    task = Task(
        name=folder.resolve().name,
        instruction=_text(folder / "instruction.md").strip(),
        verify=Verify(
            command=f'bash "$TEST_DIR/{TEST}"',
            timeout_s=declared.verifier.timeout_sec,
            files=read_files(folder / "tests"),
            environment=declared.verifier.env,
            reward="file",
        ),
        timeout_s=declared.agent.timeout_sec,
        files=read_files(folder / "environment" / "app") if ours else {},
        setup=ours.setup if ours else None,
        service=_service(folder, ours),
        needs=ours.needs if ours else (),
        environment=environment.env,
        artifacts=tuple(_artifact(entry, workdir, where) for entry in declared.artifacts),
        workdir=workdir,
        resources=_resources(environment),
        image=environment.docker_image,
        container_only=tuple(_container_only(declared, ours)),
        solution=_solution(folder, declared),
    )
    return parse_task(msgspec.to_builtins(task, builtin_types=(bytes,)), where)


def read_files(folder: Path) -> dict[str, bytes]:
    """The regular files below a folder by their relative paths; none where there is no folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadDeclaration(f"{path} cannot be read ({error}): it says in UTF-8 what the agent is asked") from error


def _refuse(declared: HarborTask, where: str) -> None:
    """What no backend of ours does."""
    version = declared.version or declared.schema_version
    if version.partition(".")[0] != "1":
        raise BadDeclaration(f"{where}: schema_version {version} is not known: use 1.0 to 1.4")
    if declared.steps or declared.multi_step_reward_strategy:
        raise BadDeclaration(f"{where}: steps: tasks of several steps are not run: make each step a task")
    if declared.environment.os != "linux":
        raise BadDeclaration(f"{where}: environment.os is {declared.environment.os!r}: only linux can be run")
    for section, env in (("environment", declared.environment.env), ("verifier", declared.verifier.env)):
        for name, value in env.items():
            if "${" in value:
                raise BadDeclaration(
                    f"{where}: {section}.env.{name} takes {value} from the host: write the value, a task reads no host"
                )


def _on_machine(declared: HarborTask, where: str) -> OnMachine | None:
    ours = declared.metadata.get("drivetrain")
    if ours is None:
        return None
    if not isinstance(ours, dict):
        raise BadDeclaration(f"{where}: metadata.drivetrain is no table: write [metadata.drivetrain]")
    return declare(ours, OnMachine, f"{where}: [metadata.drivetrain]")


def _container_only(declared: HarborTask, ours: OnMachine | None) -> list[str]:
    """Why a task cannot run without its image; empty if it can."""
    environment, verifier = declared.environment, declared.verifier
    phases = (environment, declared.agent, verifier)
    asks: dict[str, Any] = {
        "agent.user": declared.agent.user,
        "verifier.user": verifier.user,
        "verifier.environment": verifier.environment,
        "verifier.collect": verifier.collect,
        "environment.gpus": environment.gpus,
        "environment.mcp_servers": environment.mcp_servers,
        "environment.skills_dir": environment.skills_dir,
        "environment.healthcheck": environment.healthcheck,
        "environment.allow_internet = false": environment.allow_internet is False,
        "network_mode": any(phase.network_mode not in (None, "public") for phase in phases),
        "allowed_hosts": any(phase.allowed_hosts for phase in phases),
    }
    missing = [] if ours else ["it has no [metadata.drivetrain], which says that it runs without its image"]
    return missing + [f"it sets {key}" for key, value in asks.items() if value]


def _service(folder: Path, ours: OnMachine | None) -> Service | None:
    if ours is None or ours.service is None:
        return None
    return Service(command=ours.service, files=read_files(folder / "environment" / "service"))


def _solution(folder: Path, declared: HarborTask) -> Solution | None:
    files = read_files(folder / "solution")
    if SOLVE not in files:
        return None
    return Solution(command=f'bash "$SOLUTION_DIR/{SOLVE}"', files=files, environment=declared.solution.env)


def _artifact(entry: HarborArtifact | str, workdir: str, where: str) -> str:
    """An artifact as a path below the work folder."""
    artifact = HarborArtifact(source=entry) if isinstance(entry, str) else entry
    path = PurePosixPath(workdir) / artifact.source
    if not path.is_relative_to(workdir) or artifact.service not in (None, "main") or artifact.exclude:
        raise BadDeclaration(
            f"{where}: artifacts names {artifact.source!r}: give a path below {workdir}, without service and exclude"
        )
    return path.relative_to(workdir).as_posix()


def _resources(environment: HarborEnvironment) -> Resources:
    return Resources(
        cpus=environment.cpus,
        memory_mb=environment.memory_mb or _megabytes(environment.memory),
        storage_mb=environment.storage_mb or _megabytes(environment.storage),
        gpus=environment.gpus,
    )


def _megabytes(size: str | None) -> int | None:
    """`512M`, `2G`: the older spelling of sizes."""
    return None if size is None else int(float(size[:-1]) * {"K": 1 / 1024, "M": 1, "G": 1024}[size[-1].upper()])
