"""A task file is understood whole, or refused with the key and the remedy."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivetrain.orchestrator.declarations import BadDeclaration
from drivetrain.orchestrator.tasks import load_task, parse_task

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALLEST = {"name": "t", "instruction": "do it", "command": "true", "verify": {"command": "true"}}


def refused(change: dict[str, object], drop: str = "") -> str:
    data = {key: value for key, value in {**SMALLEST, **change}.items() if key != drop}
    with pytest.raises(BadDeclaration) as caught:
        parse_task(data, "task.toml")
    return str(caught.value)


def test_the_smallest_task_has_defaults() -> None:
    task = parse_task(SMALLEST)
    assert task.harness == "command"
    assert task.timeout_s == 600
    assert task.verify.timeout_s == 60
    assert task.verify.reward_file is None


def test_every_example_is_a_task() -> None:
    tasks = {path.stem: load_task(path) for path in EXAMPLES.glob("*.toml")}
    assert all(task.name == stem for stem, task in tasks.items())
    assert {task.harness for task in tasks.values()} == {"command", "mini-swe-agent"}


def test_an_unknown_key_is_named_with_the_known_ones() -> None:
    message = refused({"timout_s": 3})
    assert "task.toml: unknown key timout_s: remove it, or use one of " in message
    assert "timeout_s" in message


def test_an_unknown_nested_key_is_named_with_its_table() -> None:
    assert "unknown key verify.cmd" in refused({"verify": {"command": "true", "cmd": "true"}})


def test_a_missing_key_is_named() -> None:
    assert refused({}, drop="verify") == "task.toml: verify is missing: add it"
    assert refused({"verify": {}}) == "task.toml: verify.command is missing: add it"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": "long"}, "timeout_s"),
        ({"instruction": ""}, "instruction"),
        ({"name": "Not A Name"}, "name"),
        ({"verify": {"command": 3}}, "verify.command"),
        ({"files": {"a.txt": 3}}, "files"),
    ],
)
def test_a_bad_value_is_named(change: dict[str, object], key: str) -> None:
    assert refused(change).startswith(f"task.toml: {key}")


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a/../../up", ""])
def test_a_path_out_of_the_work_folder_is_refused(path: str) -> None:
    assert "files names" in refused({"files": {path: ""}})
    assert "verify.files names" in refused({"verify": {"command": "true", "files": {path: ""}}})
    assert "verify.reward_file names" in refused({"verify": {"command": "true", "reward_file": path}})


def test_a_task_needs_a_harness_or_a_command_and_not_both() -> None:
    assert "name a harness, or give a command" in refused({}, drop="command")
    assert "command belongs to the harness 'command'" in refused({"harness": "mini-swe-agent"})


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadDeclaration, match="name an existing TOML file"):
        load_task(tmp_path / "none.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("name = ")
    with pytest.raises(BadDeclaration, match=r"bad\.toml is not valid TOML"):
        load_task(bad)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(["name", "instruction", "verify", "harness", "command", "timeout_s", "files", "other"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(keys, values))
def test_any_content_is_a_task_or_a_typed_refusal(change: dict[str, object]) -> None:
    with suppress(BadDeclaration):  # any other exception fails the test
        parse_task({**SMALLEST, **change})
