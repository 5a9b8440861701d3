"""`task check`: what is said of a task whose parts do not fit together."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.orchestrator.backends.process.backend import ProcessBackend
from drivetrain.orchestrator.checking.prove import Checked, check, read
from drivetrain.orchestrator.running.runner import Runner
from drivetrain.orchestrator.work_folder import fresh

REWARD = '"${LOGS_DIR:-/logs}/verifier/reward.txt"'
GOOD = f"if [ -e made ]; then echo 1; else echo 0; fi > {REWARD}"
MAKE = "#!/bin/bash\ntouch made\n"


def write(folder: Path, test: str = GOOD, solve: str | None = MAKE, config: str = "[metadata.drivetrain]") -> Path:
    files = {"task.toml": config, "instruction.md": "Make `made`.", "tests/test.sh": f"#!/bin/bash\n{test}\n"}
    if solve is not None:
        files["solution/solve.sh"] = solve
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


async def proved(tmp_path: Path, folder: Path) -> Checked:
    runner = Runner(ProcessBackend(tmp_path / "leases", grace_s=0.2), fresh(tmp_path / "staging"))
    (checked,) = await check(read([folder]), runner, jobs=2)
    left = await asyncio.to_thread(lambda: [*tmp_path.glob("leases/*"), *tmp_path.glob("staging/*")])
    assert left == []
    return checked


async def test_a_good_task_is_proved(tmp_path: Path) -> None:
    found = await proved(tmp_path, write(tmp_path / "t"))
    assert (found.task, found.problems, found.solution, found.untouched) == ("t", (), 1.0, 0.0)


async def test_a_yaml_task_with_a_solution_is_proved(tmp_path: Path) -> None:
    task = tmp_path / "t.yaml"
    task.write_text("name: t\ninstruction: i\nverify: {command: test -e made}\nsolution: {command: touch made}\n")
    assert (await proved(tmp_path, task)).problems == ()


@pytest.mark.parametrize(
    ("test", "solve", "problems"),
    [
        (f"echo 1 > {REWARD}", MAKE, ["the untouched environment earned 1: the verifier asks for nothing"]),
        (GOOD, "#!/bin/bash\ntrue\n", ["the reference solution earned 0"]),
        (GOOD.replace("1", "0.5"), MAKE, ["the reference solution earned 0.5"]),
        (GOOD, "echo trouble\nexit 3\n", ["has no reward: harness_crash: solution ended with status 3; its"]),
        ("true", MAKE, ["solution has no reward: no_reward: ", "environment has no reward: no_reward: "]),
        (f"echo nan > {REWARD}", MAKE, ["no reward: bad_reward: reward.txt: reward is nan", "reward is nan"]),
        (f"head -c 70000 /dev/zero > {REWARD}", MAKE, ["no reward: too_large: reward.txt holds", "too_large"]),
        ("kill -9 $$", MAKE, ["no reward: killed: the verifier was killed by signal 9", "killed"]),
        (f"ln -s /etc/hostname {REWARD}", MAKE, ["no reward: no_reward", "no_reward"]),
        (GOOD, None, ["it has no reference solution: add solution/solve.sh, or `solution` with a command"]),
    ],
)  # fmt: skip
async def test_what_does_not_fit_is_said(tmp_path: Path, test: str, solve: str | None, problems: list[str]) -> None:
    found = await proved(tmp_path, write(tmp_path / "t", test, solve))
    assert len(found.problems) == len(problems)
    assert all(told in problem for told, problem in zip(problems, found.problems, strict=True))


async def test_a_verifier_that_hangs_or_leaves_processes_is_ended(tmp_path: Path) -> None:
    hung = write(tmp_path / "t", "sleep 600", config="[metadata.drivetrain]\n[verifier]\ntimeout_sec = 0.3")
    found = await proved(tmp_path, hung)
    assert [problem.split(": ", 1)[1] for problem in found.problems] == [
        "hung: the verifier did not end within 0.3 s"
    ] * 2
    left = write(tmp_path / "u", f"setsid sleep 60004 & {GOOD}")
    assert (await proved(tmp_path, left)).problems == ()
    lines = await asyncio.to_thread(command_lines)
    assert b"sleep\x0060004\x00" not in lines


def command_lines() -> set[bytes]:
    return {path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()}


async def test_a_task_that_cannot_run_here_cannot_be_proved(tmp_path: Path) -> None:
    image = await proved(tmp_path, write(tmp_path / "t", config=""))
    assert image.problems == (
        "t needs a container: it has no [metadata.drivetrain], which says that it runs without its image",
    )
    places = await proved(tmp_path, write(tmp_path / "u", "echo 1 > /logs/verifier/reward.txt"))
    assert "u names /logs, and this backend has no such place" in places.problems[0]


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drivetrain.orchestrator", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_every_task_of_a_folder_is_told_good_or_bad(tmp_path: Path) -> None:
    write(tmp_path / "good")
    write(tmp_path / "typo", config="[agents]")
    (tmp_path / "good.yaml").write_text("name: good\ninstruction: i\nverify: {command: 'true'}\n")
    ended = program(str(tmp_path))
    assert ended.returncode == 1
    lines = ended.stdout.splitlines()
    assert [line.split()[:2] for line in lines if not line.startswith(" ")] == [
        ["ok", "good"],
        ["bad", "good"],
        ["bad", "typo"],
        ["3", "checked,"],
    ]
    assert "another task is named 'good': rename one" in lines[2]
    assert "unknown key agents: remove it" in lines[4]


def test_json_holds_what_was_found_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "good")
    ended = program(str(tmp_path), "--solution", "--json", "--isolation", "none")
    assert ended.returncode == 0, ended.stderr
    (found,) = json.loads(ended.stdout)
    assert (found["task"], found["problems"], found["solution"], found["untouched"]) == ("good", [], 1.0, 0.0)


def test_where_there_is_no_task_the_command_says_so(tmp_path: Path) -> None:
    ended = program(str(tmp_path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "no task there: a task is a folder with a task.toml, or a YAML file" in ended.stderr
