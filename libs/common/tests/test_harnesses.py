"""A harness is one file: it is checked when it is read, and its templates are filled as they stand."""

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.harnesses import Filled, fill, fill_connection, load_harnesses, parse_harness
from drivetrain.common.harnesses.declaration import PLACEHOLDERS
from drivetrain.common.harnesses.page import page

VALUES: dict[str, str | int] = {name: f"<{name}>" for name in PLACEHOLDERS}
VALUES.update(context=8192, reply=512, home="/home/me")
SMALLEST: dict[str, Any] = {
    "name": "x",
    "title": "X",
    "install": {"command": "pip install x"},
    "dialects": {"chat": {"base_url": "{proxy_url}/v1"}},
    "run": {"argv": ["x", "{instruction}"]},
}
EACH = [(name, dialect) for name, harness in load_harnesses().items() for dialect in harness.dialects]


def changed(**change: Any) -> dict[str, Any]:
    return {**SMALLEST, **change}


def everything(filled: Filled) -> str:
    return json.dumps([filled.argv, dict(filled.environment), [file.content for file in filled.files], filled.commands])


@pytest.mark.parametrize(("name", "dialect"), EACH)
def test_each_built_in_harness_is_told_the_proxy_the_key_and_the_policy(name: str, dialect: str) -> None:
    harness = load_harnesses()[name]
    told = everything(fill(harness, VALUES, dialect))
    assert all(value in told for value in ("<proxy_url>", "<key>", "<model>")), told
    assert "<instruction>" in told
    assert harness.install.command
    assert fill(harness, VALUES, dialect).argv[0] in ("/bin/sh", "python", *harness.install.version[:1])


@pytest.mark.parametrize(("name", "dialect"), EACH)
def test_what_a_person_sets_names_no_task(name: str, dialect: str) -> None:
    told = everything(fill_connection(load_harnesses()[name], VALUES, dialect))
    assert not any(value in told for value in ("<instruction>", "<command>", "<work>"))
    assert "<key>" in told


def test_the_settings_of_pi_are_those_that_pi_reads() -> None:
    (file,) = fill_connection(load_harnesses()["pi"], VALUES, "messages").files
    assert file.path == "/home/me/.pi/agent/models.json"
    provider = file.content["providers"]["drivetrain"]
    assert (provider["api"], provider["baseUrl"]) == ("anthropic-messages", "<proxy_url>")
    assert provider["models"][0]["contextWindow"] == 8192


def test_what_a_run_adds_to_a_settings_file_joins_what_the_connection_puts_there() -> None:
    (file,) = fill(load_harnesses()["codex"], VALUES).files
    assert file.content["model_provider"] == "drivetrain"
    assert file.content["approval_policy"] == "never"
    assert "approval_policy" not in fill_connection(load_harnesses()["codex"], VALUES).files[0].content


def test_mini_swe_agent_is_asked_for_the_policy_and_the_instruction() -> None:
    argv = fill(load_harnesses()["mini-swe-agent"], VALUES).argv
    assert argv[:3] == ("mini", "-m", "openai/<model>")
    assert argv[argv.index("-t") + 1] == "<instruction>"


def test_adding_a_harness_is_one_file(tmp_path: Path) -> None:
    text = """
        name = "mine"
        title = "My own"
        install.command = "build it"
        dialects.chat.base_url = "{proxy_url}/v1"
        connect.environment = { OPENAI_BASE_URL = "{base_url}", OPENAI_API_KEY = "{key}" }
        run.argv = ["mine", "--model", "{model}", "{instruction}"]
    """
    (tmp_path / "mine.toml").write_text(text)
    filled = fill(load_harnesses([tmp_path])["mine"], VALUES)
    assert filled.argv == ("mine", "--model", "<model>", "<instruction>")
    assert filled.environment == {"OPENAI_BASE_URL": "<proxy_url>/v1", "OPENAI_API_KEY": "<key>"}
    assert "pi" in load_harnesses([tmp_path])


def test_a_value_with_braces_is_inserted_as_it_is() -> None:
    filled = fill(parse_harness(SMALLEST, "x.toml"), {**VALUES, "instruction": "print {key} and {}"})
    assert filled.argv == ("x", "print {key} and {}")


def test_a_doubled_brace_is_literal() -> None:
    connect = {"environment": {"JSON": '{{"k": "{key}"}}'}}
    assert fill(parse_harness(changed(connect=connect), "x.toml"), VALUES).environment == {"JSON": '{"k": "<key>"}'}


def test_a_number_stays_a_number_where_a_file_wants_one_and_is_text_in_the_environment() -> None:
    file = {"path": "{home}/x.json", "format": "json", "content": {"size": "{context}", "told": "up to {context}"}}
    connect = {"environment": {"SIZE": "{context}"}, "files": [file]}
    filled = fill(parse_harness(changed(connect=connect), "x.toml"), VALUES)
    assert filled.files[0].content == {"size": 8192, "told": "up to 8192"}
    assert filled.environment == {"SIZE": "8192"}


def test_a_dialect_that_a_harness_does_not_speak_is_refused() -> None:
    with pytest.raises(BadDeclaration, match="codex does not speak the dialect 'chat': use one of responses"):
        fill(load_harnesses()["codex"], VALUES, "chat")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"run": {"argv": ["x", "{keys}"]}}, "run.argv[1] uses {keys}"),
        ({"connect": {"environment": {"A": "{0}"}}}, "connect.environment.A uses {0}"),
        ({"connect": {"environment": {"A": "{key!r}"}}}, "connect.environment.A uses {key}"),
        ({"connect": {"environment": {"A": "{key"}}}, "connect.environment.A is no template"),
        ({"dialects": {"chat": {"base_url": "{prox}"}}}, "dialects.chat.base_url uses {prox}"),
        ({"dialects": {"chat": {"api": "a"}, "responses": {}}, "run": {"argv": ["{api}"]}}, "run.argv[0] uses {api}"),
        ({"dialects": {}}, "dialects"),
        ({"dialects": {"smoke": {}}}, "dialects"),
        ({"run": {"argv": []}}, "run.argv"),
        ({"run": {"argv": ["x"], "end": {"status": [0]}}}, "unknown key run.end.status"),
        ({"connect": {"files": [{"path": "/etc/x", "format": "json", "content": {}}]}}, "connect.files[0].path"),
        ({"dialect": "chat"}, "unknown key dialect"),
    ],
)
def test_a_bad_harness_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadDeclaration) as caught:
        parse_harness(changed(**change), "x.toml")
    assert said in str(caught.value)


def test_a_file_must_be_named_after_its_harness(tmp_path: Path) -> None:
    (tmp_path / "y.toml").write_text(
        'name = "x"\ntitle = "X"\ninstall.command = ""\ndialects.chat = {}\nrun.argv = ["x"]'
    )
    with pytest.raises(BadDeclaration, match="rename the file or the harness"):
        load_harnesses([tmp_path])


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadDeclaration, match="correct harness_folders"):
        load_harnesses([tmp_path / "none"])


def test_a_signal_is_never_a_regular_end() -> None:
    strict = parse_harness(SMALLEST, "x.toml").run.end
    lenient = parse_harness(changed(run={"argv": ["x"], "end": {"any_status": True}}), "x.toml").run.end
    assert [strict.is_regular(status) for status in (0, 1, -9)] == [True, False, False]
    assert [lenient.is_regular(status) for status in (0, 1, -9)] == [True, True, False]


def test_the_page_of_the_harnesses_is_up_to_date() -> None:
    document = Path(__file__).parents[3] / "docs" / "harnesses.md"
    assert document.read_text() == page(load_harnesses()), (
        "run python -m drivetrain.common.harnesses > docs/harnesses.md"
    )
