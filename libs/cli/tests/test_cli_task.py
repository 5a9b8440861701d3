"""`drivetrain task`: the orchestrator's own program, found through the one command."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from drivetrain.cli.app import app
from drivetrain.cli.errors import CliError

TASK = "name: t\ninstruction: i\nverify: {command: test -e made}\nsolution: {command: touch made}\n"


def drivetrain(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drivetrain.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_check_proves_a_task(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TASK)
    ended = drivetrain("task", "check", str(tmp_path), "--solution", "--json", "--isolation", "none", "--jobs", "1")
    assert ended.returncode == 0, ended.stderr
    assert [(found["task"], found["solution"], found["untouched"]) for found in json.loads(ended.stdout)] == [
        ("t", 1.0, 0.0)
    ]


def test_check_passes_on_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("name: t\ninstruction: i\n")
    ended = drivetrain("task", "check", str(tmp_path / "t.yaml"))
    assert ended.returncode == 1
    assert "verify is missing: add it" in ended.stdout


def test_without_the_orchestrator_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    ended = CliRunner().invoke(app, ["task", "check", "tasks"])
    assert isinstance(ended.exception, CliError)
    assert "pip install drivetrain-orchestrator" in str(ended.exception)
