"""The tasks that come with the product: each is what it says, and can be learned from."""

import tomllib
from collections import Counter
from pathlib import Path

from drivetrain.common.tasks import fixed_places, load_tasks
from drivetrain.orchestrator.backends.making import confinement
from drivetrain.orchestrator.backends.process.backend import ProcessBackend
from drivetrain.orchestrator.checking.prove import check, read
from drivetrain.orchestrator.running.runner import Runner
from drivetrain.orchestrator.work_folder import fresh

TASKS = Path(__file__).parents[3] / "tasks"


def test_there_are_tasks_of_every_kind_and_easy_ones() -> None:
    metadata = [tomllib.loads(path.read_text())["metadata"] for path in TASKS.glob("*/task.toml")]
    kinds = Counter(entry["category"] for entry in metadata)
    assert set(kinds) == {"answer", "terminal", "editing", "debugging", "api", "web"}
    assert min(kinds.values()) >= 4
    assert kinds.total() >= 24
    assert Counter(entry["difficulty"] for entry in metadata)["easy"] >= 6


def test_a_question_is_asked_as_it_is_and_only_the_right_word_counts() -> None:
    questions = load_tasks(TASKS / "questions")
    assert len(questions) >= 6
    for task in questions:
        assert task.command == "python3 ask.py"
        assert len(task.instruction.split()) <= 12


def test_each_runs_with_and_without_its_image() -> None:
    for task in load_tasks(TASKS):
        assert (task.container_only, fixed_places(task)) == ((), None), task.name
        assert (TASKS / task.name / "environment" / "Dockerfile").exists()


def test_an_image_holds_what_the_work_folder_holds() -> None:
    for folder in (path.parent for path in TASKS.glob("*/task.toml")):
        dockerfile = (folder / "environment" / "Dockerfile").read_text()
        assert "WORKDIR /app\n" in dockerfile
        for name in ("app", "service"):
            assert (folder / "environment" / name).exists() == (f"COPY {name}/ /{name}/\n" in dockerfile), folder.name


async def test_every_solution_earns_one_and_doing_nothing_does_not(tmp_path: Path) -> None:
    leases = tmp_path / "leases"
    backend = ProcessBackend(leases, bubblewrap=confinement("auto", leases, ()))
    found = await check(read([TASKS, TASKS / "questions"]), Runner(backend, fresh(tmp_path / "staging")), jobs=2)
    assert {checked.task: checked.problems for checked in found if checked.problems} == {}
    assert {checked.solution for checked in found} == {1.0}
    assert all(checked.untouched is not None and checked.untouched < 1 for checked in found)
