"""`drivetrain keys`: what it prints is a key that the file knows, and what it revokes is gone."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from drivetrain.cli.app import app
from drivetrain.cli.commands.keys import moment
from drivetrain.cli.errors import CliError
from drivetrain.common.keys import id_of, matches, read_keys

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


def keys(file: Path, *arguments: str) -> str:
    command = [*("keys", *arguments), "--file", str(file)]
    result = CliRunner().invoke(app, command, catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output.strip()


def test_an_added_key_is_known_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "new" / "keys.toml"
    options = ["--tenant", "team-a", "--role", "admin", "--policy", "a", "--policy", "b", "--consent", "record"]
    key = keys(file, "add", "--name", "Ann's “laptop”", *options, "--tokens-per-minute", "9000", "--expires", "2d")
    entry = read_keys(file.read_text())[id_of(key) or ""]
    assert matches(entry, key)
    assert (entry.name, entry.tenant, entry.role) == ("Ann's “laptop”", "team-a", "admin")
    assert (entry.policies, entry.consent, entry.tokens_per_minute) == (("a", "b"), "record", 9000)
    assert entry.expires is not None
    assert entry.created is not None
    assert entry.expires - entry.created == timedelta(days=2)
    assert key.split("_", 2)[2] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_keys_are_listed_without_their_hashes_and_revoked_by_id(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    assert keys(file, "list") == "No keys."
    first, second = keys(file, "add", "--name", "one"), keys(file, "add", "--name", "two")
    shown = keys(file, "list")
    assert all(word in shown for word in ("one", "two", str(id_of(first)), "never", "all"))
    assert read_keys(file.read_text())[id_of(first) or ""].hash not in shown
    keys(file, "revoke", str(id_of(first)))
    assert list(read_keys(file.read_text())) == [id_of(second)]


def test_a_files_mode_stays_as_its_owner_set_it(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    keys(file, "add")
    file.chmod(0o640)
    keys(file, "add")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "--role", "king"], "king"),
        (["add", "--tenant", "Team A"], "tenant"),
        (["add", "--tenant", "rollouts"], "signed rollout keys"),
        (["add", "--requests-per-minute", "0"], "requests_per_minute"),
        (["add", "--expires", "soon"], "2030-01-31"),
        (["revoke", "abcdefgh"], "no key 'abcdefgh'"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(tmp_path: Path, arguments: list[str], words: str) -> None:
    file = tmp_path / "keys.toml"
    result = CliRunner().invoke(app, ["keys", *arguments, "--file", str(file)])
    assert isinstance(result.exception, CliError)
    assert words in str(result.exception)
    assert not file.exists()


def test_a_damaged_file_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text("[keys")
    result = CliRunner().invoke(app, ["keys", "add", "--file", str(file)])
    assert isinstance(result.exception, CliError)
    assert file.read_text() == "[keys"


def test_the_end_of_a_key_is_a_time_span_or_a_moment() -> None:
    assert moment("30m", NOW) == datetime(2030, 1, 31, 12, 30, tzinfo=UTC)
    assert moment("12h", NOW) == datetime(2030, 2, 1, tzinfo=UTC)
    assert moment("2030-02-01", NOW) == datetime(2030, 2, 1, tzinfo=UTC)
    assert moment("2030-02-01T03:00:00+02:00", NOW) == datetime(2030, 2, 1, 1, tzinfo=UTC)
    with pytest.raises(CliError, match="over already"):
        moment("2030-01-31", NOW)
