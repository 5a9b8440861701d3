"""Harbor's task folders, as the ecosystem writes them, and what is refused of them."""

from pathlib import Path

import pytest

from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.tasks import Task, load_task, load_tasks

OLD = """
version = "1.0"

[metadata]
author_name = "A"
difficulty = "easy"
tags = ["x"]

[verifier]
timeout_sec = 120.0

[agent]
timeout_sec = 30.0

[environment]
build_timeout_sec = 600.0
cpus = 2
memory = "2G"
storage = "512M"
"""
NEW = """
schema_version = "1.4"
artifacts = ["/work/out.txt", { source = "deep/more.txt" }]

[task]
name = "org/count-lines"
authors = [{ name = "A", email = "a@example.com" }]

[metadata.drivetrain]
needs = ["python3"]
setup = "touch ready"
service = "python3 $SERVICE_DIR/api.py"

[environment]
docker_image = "org/image:1"
workdir = "/work"
memory_mb = 128
env = { LANGUAGE = "C" }

[verifier]
environment_mode = "separate"
env = { STRICT = "1" }

[solution]
env = { HINT = "2" }
"""


def write(folder: Path, config: str, **more: str | bytes) -> Path:
    """A task folder; names of `more` have two underscores where the path has a slash, one where it has a dot."""
    files = {"instruction.md": "\nCount the lines.\n", "tests/test.sh": "#!/bin/bash\n", "task.toml": config}
    for name, content in more.items():
        files[name.replace("__", "/").replace("_", ".")] = content  # type: ignore[assignment]
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def refused(folder: Path, config: str) -> str:
    with pytest.raises(BadDeclaration) as caught:
        load_task(write(folder, config))
    return str(caught.value)


def test_an_old_task_is_read_and_needs_its_image(tmp_path: Path) -> None:
    task = load_task(write(tmp_path / "count-lines", OLD, environment__Dockerfile="FROM debian\n"))
    assert (task.name, task.instruction, task.timeout_s) == ("count-lines", "Count the lines.", 30)
    assert (task.verify.timeout_s, task.verify.reward, task.verify.files) == (
        120,
        "file",
        {"test.sh": b"#!/bin/bash\n"},
    )
    assert (task.resources.cpus, task.resources.memory_mb, task.resources.storage_mb) == (2, 2048, 512)
    assert task.container_only == ("it has no [metadata.drivetrain], which says that it runs without its image",)
    assert (task.files, task.solution, task.workdir) == ({}, None, "/app")


def test_a_new_task_is_read_whole_and_runs_without_its_image(tmp_path: Path) -> None:
    task = load_task(
        write(
            tmp_path / "count-lines",
            NEW,
            environment__app__data_txt="1\n",
            environment__service__api_py="serve()",
            solution__solve_sh="wc -l",
            solution__more_bin=b"\xff",
            tests__unit__check_py="assert 1",
        )
    )
    assert (task.files, task.setup, task.needs) == ({"data.txt": b"1\n"}, "touch ready", ("python3",))
    assert task.service is not None
    assert task.service.files == {"api.py": b"serve()"}
    assert task.solution is not None
    assert (set(task.solution.files), task.solution.environment) == ({"solve.sh", "more.bin"}, {"HINT": "2"})
    assert set(task.verify.files) == {"test.sh", "unit/check.py"}
    assert (task.environment, task.verify.environment) == ({"LANGUAGE": "C"}, {"STRICT": "1"})
    assert (task.artifacts, task.workdir, task.image) == (("out.txt", "deep/more.txt"), "/work", "org/image:1")
    assert task.container_only == ()


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("[agent]\nuser = 'agent'", "it sets agent.user"),
        ("[environment]\ngpus = 1", "it sets environment.gpus"),
        ("[environment]\nallow_internet = false", "it sets environment.allow_internet = false"),
        ("[verifier]\nnetwork_mode = 'no-network'", "it sets network_mode"),
        ("[environment.healthcheck]\ncommand = 'true'", "it sets environment.healthcheck"),
        ("[verifier.environment]\ncpus = 1", "it sets verifier.environment"),
        ("[[verifier.collect]]\ncommand = 'true'", "it sets verifier.collect"),
    ],
)
def test_what_only_a_container_gives_is_named(tmp_path: Path, config: str, reason: str) -> None:
    task = load_task(write(tmp_path / "t", f"[metadata.drivetrain]\n{config}"))
    assert task.container_only == (reason,)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            "[agent]\ntimout_sec = 1",
            "t/task.toml: unknown key agent.timout_sec: remove it, or use one of allowed_hosts",
        ),
        ("[enviroment]\ncpus = 1", "unknown key enviroment: remove it"),
        ("artifacts = [{ source = 'a', to = 'b' }]", "unknown key artifacts[0].to"),
        ("[[environment.mcp_servers]]\nname = 'a'\nport = 1", "unknown key environment.mcp_servers[0].port"),
        (
            "[metadata.drivetrain]\nneed = ['sh']",
            "[metadata.drivetrain]: unknown key need: remove it, or use one of needs",
        ),
        ("[metadata]\ndrivetrain = true", "metadata.drivetrain is no table: write [metadata.drivetrain]"),
        ("[agent]\ntimeout_sec = 0", "agent.timeout_sec: Expected `float` > 0.0"),
        ("schema_version = '2.0'", "schema_version 2.0 is not known: use 1.0 to 1.4"),
        ("[[steps]]\nname = 'a'", "steps: tasks of several steps are not run: make each step a task"),
        ("[environment]\nos = 'windows'", "environment.os is 'windows': only linux can be run"),
        ("[environment]\nmemory = '2 apples'", "environment.memory"),
        ("[environment.env]\nKEY = '${KEY}'", "environment.env.KEY takes ${KEY} from the host: write the value"),
        ("artifacts = ['/etc/passwd']", "artifacts names '/etc/passwd': give a path below /app"),
        ("artifacts = ['../up']", "artifacts names '../up'"),
        ("x = ", "is not valid TOML"),
    ],
)
def test_a_bad_task_toml_is_refused_with_the_key_and_the_remedy(tmp_path: Path, config: str, told: str) -> None:
    assert told in refused(tmp_path / "t", config)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", "")
    (folder / "tests/test.sh").unlink()
    with pytest.raises(
        BadDeclaration, match=r"t has no verifier: add tests/test\.sh, which writes a number in \[0, 1\]"
    ):
        load_task(folder)
    write(folder, "")
    (folder / "instruction.md").unlink()
    with pytest.raises(BadDeclaration, match=r"instruction\.md cannot be read"):
        load_task(folder)
    (folder / "task.toml").unlink()
    with pytest.raises(BadDeclaration, match=r"task\.toml cannot be read .*: name an existing TOML file"):
        load_task(folder)


def test_a_link_is_no_file_of_a_task(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", "[metadata.drivetrain]", environment__app__a="a")
    (folder / "environment/app/secret").symlink_to("/etc/passwd")
    assert set(load_task(folder).files) == {"a"}


def test_folders_and_files_of_tasks_are_read_together(tmp_path: Path) -> None:
    write(tmp_path / "b", "")
    (tmp_path / "a.yaml").write_text("name: a\ninstruction: i\nverify: {command: 'true'}\n")
    (tmp_path / "assets").mkdir()
    tasks: list[Task] = load_tasks(tmp_path)
    assert [task.name for task in tasks] == ["a", "b"]
