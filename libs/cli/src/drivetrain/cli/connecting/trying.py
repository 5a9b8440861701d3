"""One round trip of a harness through the proxy: it is asked something small, in a home and a folder of its own."""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from drivetrain.cli.connecting.programs import search_path
from drivetrain.cli.errors import CliError
from drivetrain.common.harnesses import Filled, Harness, fill
from drivetrain.common.harnesses.documents import written
from drivetrain.common.harnesses.filling import Values

TAIL = 800
"""Characters of a harness's output that a message quotes."""


@dataclass(frozen=True)
class Trial:
    """How the harness ended: its exit status, None if it was stopped after its time, and the end of what it said."""

    status: int | None
    output: str


def run_once(harness: Harness, values: Values, dialect: str | None, timeout_s: float) -> Trial:
    """Let a harness work on `values["instruction"]`, in a temporary home: a person's settings stay as they are.

    Raises:
        CliError: its program is not here.
    """
    with tempfile.TemporaryDirectory(prefix="drivetrain-check-") as name:
        home, work = Path(name) / "home", Path(name) / "work"
        for folder in (home, work):
            folder.mkdir()
        told = {**values, "home": str(home), "work": str(work), "command": "true"}
        filled = fill(harness, told, dialect)
        put_files(filled)
        return _run(harness, filled, {**_environment(harness, home), **filled.environment}, work, timeout_s)


def put_files(filled: Filled) -> None:
    """Write an adapter's settings files where there are none."""
    for file in filled.files:
        path = Path(file.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written(file.format, file.content), encoding="utf-8")


def _environment(harness: Harness, home: Path) -> dict[str, str]:
    """What a program needs of this machine, and nothing of a person's own settings."""
    kept = {name: os.environ[name] for name in ("LANG", "TERM", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), "PATH": search_path(harness)}


def _run(harness: Harness, filled: Filled, environment: Mapping[str, str], work: Path, timeout_s: float) -> Trial:
    output, status = "", None
    for argv in (*filled.commands, filled.argv):
        try:
            ended = subprocess.run(
                argv,
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            )
        except FileNotFoundError as error:
            raise CliError(f"{argv[0]} is not there: {harness.advice}") from error
        except subprocess.TimeoutExpired as error:
            return Trial(None, _tail(error.output))
        output, status = _tail(ended.stdout), ended.returncode
        if status != 0:
            break
    return Trial(status, output)


def _tail(output: bytes | None) -> str:
    return (output or b"").decode(errors="replace").strip()[-TAIL:]
