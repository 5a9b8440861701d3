"""Fixtures of the command's tests: a home of its own for each, so that no test sees the user's runs or models."""

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`DRIVETRAIN_HOME`, empty."""
    folder = tmp_path / "home"
    monkeypatch.setenv("DRIVETRAIN_HOME", str(folder))
    return folder
