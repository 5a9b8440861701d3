"""`drivetrain judge`: the judge's own program, found through the one command."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from drivetrain.cli.app import app
from drivetrain.cli.errors import CliError

LINE = {
    "id": "a", "domain": "swe", "language": "en", "label": -1, "conversation": [{"role": "user", "content": "build"}],
    "reply": {"role": "assistant", "content": "make"}, "next": [{"role": "tool", "content": "Exit code: 2\nmake: ***"}],
}  # fmt: skip


def drivetrain(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drivetrain.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_eval_runs_the_judge_with_its_own_settings(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(LINE))
    ended = drivetrain("judge", "eval", str(path), "--judge", "mine", "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["judge"], found["total"]["turns"], found["total"]["accuracy"]["value"]) == ("mine", 1, 1.0)


def test_eval_passes_on_what_the_judge_refuses(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text("{")
    ended = drivetrain("judge", "eval", str(path))
    assert ended.returncode == 2
    assert "line 1: not JSON" in ended.stderr
    assert ended.stdout == ""


def test_without_the_judge_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    ended = CliRunner().invoke(app, ["judge", "eval", "set.jsonl"])
    assert isinstance(ended.exception, CliError)
    assert "pip install drivetrain-judge" in str(ended.exception)
