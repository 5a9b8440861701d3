"""A one-file task is understood whole, or refused with the key and the remedy."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.events import RolloutRef, RolloutRequested, decode, encode
from drivetrain.common.tasks import fixed_places, load_task, load_tasks, parse_task, plain

EXAMPLES = Path(__file__).parents[3] / "services/orchestrator/examples"
SMALLEST = {"name": "t", "instruction": "do it", "verify": {"command": "true"}}


def refused(change: dict[str, object], drop: str = "") -> str:
    data = {key: value for key, value in {**SMALLEST, **change}.items() if key != drop}
    with pytest.raises(BadDeclaration) as caught:
        parse_task(data, "task.yaml")
    return str(caught.value)


def test_the_smallest_task_has_defaults() -> None:
    task = parse_task(SMALLEST)
    assert (task.timeout_s, task.verify.timeout_s, task.verify.reward) == (600, 60, "status")
    assert (task.harness, task.workdir, task.container_only, task.solution) == (None, "/app", (), None)


def test_every_example_is_a_task() -> None:
    tasks = {path.stem: load_task(path) for path in EXAMPLES.glob("*.yaml")}
    assert all(task.name == stem for stem, task in tasks.items())
    assert {task.harness or "command" for task in tasks.values()} == {"command", "mini-swe-agent"}


def test_an_unknown_key_is_named_with_the_known_ones() -> None:
    message = refused({"timout_s": 3})
    assert "task.yaml: unknown key timout_s: remove it, or use one of " in message
    assert "timeout_s" in message


def test_an_unknown_nested_key_is_named_with_its_table() -> None:
    assert "unknown key verify.cmd" in refused({"verify": {"command": "true", "cmd": "true"}})
    assert "unknown key service.port" in refused({"service": {"command": "true", "port": 1}})


def test_a_task_without_a_verifier_is_refused() -> None:
    assert refused({}, drop="verify").startswith("task.yaml: verify is missing: add it, or `ranked: true`")
    assert refused({"ranked": True}) == "task.yaml: ranked is for tasks without verify: remove one of them"
    assert refused({"verify": {}}) == "task.yaml: verify.command is missing: add it"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": "long"}, "timeout_s"),
        ({"instruction": ""}, "instruction"),
        ({"name": "no name"}, "name"),
        ({"name": False}, "name: Expected `str`, got `bool`"),
        ({"verify": {"command": 3}}, "verify.command"),
        ({"files": {"a.txt": 3}}, "files"),
        ({"workdir": "app"}, "workdir"),
        ({"verify": {"command": "true", "reward": "both"}}, "verify.reward"),
    ],
)
def test_a_bad_value_is_named(change: dict[str, object], key: str) -> None:
    assert refused(change).startswith(f"task.yaml: {key}")


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a/../../up", ""])
def test_a_path_out_of_its_folder_is_refused(path: str) -> None:
    assert "files names" in refused({"files": {path: ""}})
    assert "artifacts names" in refused({"artifacts": [path]})
    for part in ("verify", "service", "solution"):
        assert f"{part}.files names" in refused({part: {"command": "true", "files": {path: ""}}})


def test_files_beyond_all_measure_are_refused() -> None:
    assert "more than 32 MiB: make them in `setup`" in refused({"files": {"big": b"0" * (32 * 1024 * 1024 + 1)}})


def test_a_request_carries_a_task_as_it_is_but_for_its_solution() -> None:
    whole = {
        **SMALLEST,
        "files": {"a.txt": "ä", "b.bin": b"\xff\x00"},
        "needs": ["sh"],
        "service": {"command": "true"},
        "solution": {"command": "true"},
    }
    task = parse_task(whole)
    ref = RolloutRef(run="r", group="g", rollout="o")
    sent = RolloutRequested(rollout=ref, policy="p", task=plain(task), timeout_s=1.0, at=0.0)
    got = decode(encode(sent), RolloutRequested)
    assert isinstance(got, RolloutRequested)
    assert got.task == {key: value for key, value in whole.items() if key != "solution"}
    assert parse_task(got.task).files == {"a.txt": "ä".encode(), "b.bin": b"\xff\x00"}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({}, None),
        ({"instruction": "Write /app/answer.txt."}, "/app"),
        ({"instruction": "Write answer.txt in src/app and read http://host/app"}, None),
        ({"verify": {"command": 'cat "${LOGS_DIR:-/logs}/x"'}}, None),
        ({"verify": {"command": "sh x", "files": {"x": "cd /tests"}}}, "/tests"),
        ({"files": {"notes.md": "deploy to /app"}}, None),
        ({"solution": {"command": "cp /solution/a ."}}, "/solution"),
    ],
)
def test_a_place_that_a_script_takes_for_granted_is_found(change: dict[str, object], place: str | None) -> None:
    assert fixed_places(parse_task({**SMALLEST, **change})) == place


def test_a_file_that_is_missing_or_no_yaml_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadDeclaration, match="name an existing YAML file"):
        load_task(tmp_path / "none.yaml")
    for content, told in [
        ("name: [", "is not valid YAML"),
        ("- a", "holds no keys"),
        ("1: a", "holds no keys"),
        ("name: a\nname: b", "the key name comes twice"),
        ("? [a]\n: b", "is not valid YAML"),
    ]:
        (tmp_path / "bad.yaml").write_text(content)
        with pytest.raises(BadDeclaration, match=told):
            load_task(tmp_path / "bad.yaml")
    with pytest.raises(BadDeclaration, match=r"is no task: give a YAML file, or a folder with a task\.toml"):
        load_task(tmp_path / "task.json")


def write(path: Path, name: str) -> Path:
    path.write_text(f"name: {name}\ninstruction: i\nverify: {{command: 'true'}}\n")
    return path


def test_tasks_are_read_from_a_folder_and_from_a_list(tmp_path: Path) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    write(folder / "b.yaml", "b")
    write(folder / "a.yml", "a")
    (folder / "notes.md").write_text("no task")
    write(tmp_path / "c.yaml", "c")
    (tmp_path / "list.txt").write_text("# mine\nc.yaml  # the third\n\nsome\n")
    assert [task.name for task in load_tasks(folder)] == ["a", "b"]
    assert [task.name for task in load_tasks(tmp_path / "list.txt")] == ["c", "a", "b"]
    assert [task.name for task in load_tasks(tmp_path / "c.yaml")] == ["c"]


def test_no_task_and_two_of_a_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadDeclaration, match="holds no task: a task is a folder with a"):
        load_tasks(tmp_path)
    write(tmp_path / "a.yaml", "same")
    write(tmp_path / "b.yaml", "same")
    with pytest.raises(BadDeclaration, match="two tasks are named 'same': rename one"):
        load_tasks(tmp_path)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(["name", "instruction", "verify", "service", "needs", "solution", "timeout_s", "files", "other"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(keys, values))
def test_any_content_is_a_task_or_a_typed_refusal(change: dict[str, object]) -> None:
    with suppress(BadDeclaration):  # any other exception fails the test
        parse_task({**SMALLEST, **change})
