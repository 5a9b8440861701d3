"""The command as typed: its options, its errors, its status; and the settings that it hands to clients."""

import builtins
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer import Typer
from typer.testing import CliRunner

from drivetrain.cli.demo import main
from drivetrain.cli.demo.command import HELDOUT, MINUTES, SESSIONS, demo
from drivetrain.cli.demo.main import Options, run_demo
from drivetrain.cli.demo.report import print_clients
from drivetrain.cli.errors import CliError

app = Typer()
app.command()(demo)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    seen: list[Options] = []

    def remember(options: Options) -> int:
        seen.append(options)
        return 0

    monkeypatch.setattr(main, "run_demo", remember)
    return seen


def test_defaults(asked: list[Options]) -> None:
    assert CliRunner().invoke(app, []).exit_code == 0
    assert asked == [Options(None, 0, SESSIONS, None, HELDOUT, MINUTES, "combine", None, None, 8411, False)]


def test_every_option_arrives(asked: list[Options], tmp_path: Path) -> None:
    line = (
        "--taste t.toml --seed 3 --sessions 9 --updates 2 --heldout 5 --minutes 4 --method opd --model m --port 0 "
        "--keep --run-dir"
    )
    assert CliRunner().invoke(app, [*line.split(), str(tmp_path)]).exit_code == 0
    assert asked == [Options(Path("t.toml"), 3, 9, 2, 5, 4.0, "opd", "m", tmp_path, 0, True)]


@pytest.mark.parametrize(
    "line", ["--sessions 0", "--updates 0", "--heldout 73", "--minutes 0", "--seed x", "--speed 3"]
)
def test_bad_options_are_refused(asked: list[Options], line: str) -> None:
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 2
    assert line.split()[0] in result.output
    assert asked == []


def test_the_status_of_the_demo_is_that_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "run_demo", lambda options: 1)
    assert CliRunner().invoke(app, []).exit_code == 1


def test_a_taste_that_is_not_there_ends_it_before_anything_starts(tmp_path: Path) -> None:
    options = Options(tmp_path / "none.toml", 0, 1, None, 8, 1.0, "combine", None, tmp_path, 0, False)
    with pytest.raises(CliError, match=r"none\.toml") as caught:
        run_demo(options)
    assert caught.value.status == 2
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_openai(name: str, *rest: Any) -> Any:
        if name == "drivetrain.cli.demo.main":
            raise ModuleNotFoundError("No module named 'openai'", name="openai")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_openai)
    with pytest.raises(CliError, match="pip install openai"):
        demo()


def test_the_end_of_the_demo_says_how_an_agent_is_connected() -> None:
    told = io.StringIO()
    print_clients(Console(file=told, width=200), "http://127.0.0.1:8411", "default")
    assert "base URL http://127.0.0.1:8411/v1, any key, model default" in told.getvalue()
    assert "drivetrain connect NAME" in told.getvalue()
    assert "claude-code" in told.getvalue()
