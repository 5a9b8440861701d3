"""`drivetrain connect`: settings that a person can read, write and take back."""

import json
import stat
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from drivetrain.cli.app import app
from drivetrain.cli.errors import CliError

OTHER = ("--proxy", "http://proxy:8411", "--key", "a-key", "--model", "mine")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this test alone, with no stack running."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DRIVETRAIN_HOME", str(tmp_path / "drivetrain"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def drivetrain(*arguments: str) -> Result:
    ended = CliRunner().invoke(app, ["connect", *arguments])
    if ended.exception and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return ended


def test_the_settings_of_codex_are_printed_and_nothing_is_written(home: Path) -> None:
    told = drivetrain("codex", *OTHER).stdout
    heading, _, rest = told.partition("\n")
    assert heading == f"# {home}/.codex/config.toml"
    settings, _, exports = rest.partition("\n\nexport ")
    read = tomllib.loads(settings)
    assert read["model_providers"]["drivetrain"]["base_url"] == "http://proxy:8411/v1"
    assert read["model"] == "mine"
    assert exports.strip() == f"{read['model_providers']['drivetrain']['env_key']}=a-key"
    assert list(home.iterdir()) == []


def test_what_was_written_is_taken_back_to_the_letter(home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    before = '{"theme":   "dark", "env": {"EDITOR": "vi"}}'
    settings.write_text(before)
    drivetrain("claude-code", *OTHER, "--write")
    now = json.loads(settings.read_text())
    assert now["theme"] == "dark"
    assert now["env"]["EDITOR"] == "vi"
    assert now["env"]["ANTHROPIC_BASE_URL"] == "http://proxy:8411"
    drivetrain("claude-code", "--undo")
    assert settings.read_text() == before
    assert sorted(path.name for path in settings.parent.iterdir()) == ["settings.json"]


def test_a_file_that_was_not_there_is_gone_again_and_only_its_owner_reads_it(home: Path) -> None:
    drivetrain("pi", *OTHER, "--write")
    settings = home / ".pi" / "agent" / "models.json"
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert json.loads(settings.read_text())["providers"]["drivetrain"]["apiKey"] == "a-key"
    drivetrain("pi", "--undo")
    assert not settings.exists()


def test_written_twice_is_still_taken_back_to_the_first_text(home: Path) -> None:
    settings = home / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text("# mine\n")
    drivetrain("codex", *OTHER, "--write")
    drivetrain("codex", "--proxy", "http://other:1", "--key", "k", "--model", "m", "--write")
    assert "http://other:1/v1" in settings.read_text()
    drivetrain("codex", "--undo")
    assert settings.read_text() == "# mine\n"


def test_a_file_that_was_edited_since_is_not_overwritten(home: Path) -> None:
    drivetrain("codex", *OTHER, "--write")
    settings = home / ".codex" / "config.toml"
    settings.write_text(settings.read_text() + "# a later thought\n")
    with pytest.raises(CliError, match="was edited since"):
        drivetrain("codex", "--undo")
    assert "# a later thought" in settings.read_text()


def test_a_file_that_cannot_be_read_is_left_as_it_is(home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{ this is no JSON")
    with pytest.raises(CliError, match="left as it is: it is not valid json"):
        drivetrain("claude-code", *OTHER, "--write")
    assert settings.read_text() == "{ this is no JSON"


def test_another_dialect_is_another_address() -> None:
    told = drivetrain("pi", *OTHER, "--dialect", "messages").stdout
    provider = json.loads(told.partition("\n")[2])["providers"]["drivetrain"]
    assert (provider["api"], provider["baseUrl"]) == ("anthropic-messages", "http://proxy:8411")


def test_a_harness_of_ones_own_is_one_file(tmp_path: Path) -> None:
    lines = ('name = "mine"', 'title = "Mine"', 'install.command = "true"', "dialects.chat = {}")
    rest = ('connect.environment.KEY = "{key}"', 'run.argv = ["mine", "{model}", "{proxy_url}", "{instruction}"]')
    (tmp_path / "mine.toml").write_text("\n".join(lines + rest))
    told = drivetrain("mine", *OTHER, "--harnesses", str(tmp_path)).stdout
    assert told == "export KEY=a-key\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nano", *OTHER), "the harness 'nano' is unknown: use one of aider"),
        (("codex", "--proxy", "http://p"), "--key is missing"),
        (("codex", "--proxy", "http://p", "--key", "k"), "--model is missing"),
        (("codex",), "no stack is running"),
        (("codex", *OTHER, "--dialect", "chat"), "does not speak the dialect 'chat'"),
        (("codex", "--undo"), "nothing to undo"),
        (("codex", *OTHER, "--harnesses", "/nowhere"), "/nowhere does not exist"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(CliError) as caught:
        drivetrain(*arguments)
    assert said in str(caught.value)
