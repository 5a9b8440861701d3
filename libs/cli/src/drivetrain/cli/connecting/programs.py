"""The harnesses' programs on this machine: where they are, which version, and how they get here."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from drivetrain.cli.errors import CliError
from drivetrain.cli.paths import data_dir
from drivetrain.common.harnesses import Harness

VERSION_S = 60.0
_VERSION = re.compile(r"\d+\.\d+[\w.-]*")


def home_of(harness: Harness) -> Path:
    """The folder that `drivetrain harness install` fills."""
    return data_dir() / "harnesses" / harness.name


def program_folders(harness: Harness) -> list[Path]:
    """The folders of an installed harness that belong in front of PATH; empty if it is not installed here."""
    return [folder for part in harness.install.path if (folder := home_of(harness) / part).is_dir()]


def search_path(harness: Harness) -> str:
    """PATH with the harness's own folders in front."""
    return os.pathsep.join([*map(str, program_folders(harness)), os.environ.get("PATH", os.defpath)])


def find(harness: Harness) -> str | None:
    """Where its program is; None if there is none."""
    return shutil.which(harness.program, path=search_path(harness))


def installed_version(harness: Harness) -> str | None:
    """The version that is here, as the program says; None if it is not here or does not say."""
    if find(harness) is None or not harness.install.version:
        return None
    environment = {**os.environ, "PATH": search_path(harness), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    try:
        ended = subprocess.run(
            harness.install.version,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=VERSION_S,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(ended.stdout + ended.stderr)
    return found[0] if found else None


def install(harness: Harness) -> Path:
    """Install the tested version into the harness's own folder.

    Raises:
        CliError: the command that installs it failed.
    """
    folder = home_of(harness)
    folder.mkdir(parents=True, exist_ok=True)
    command = harness.install.command.format(folder=shlex.quote(str(folder)))
    status = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, check=False).returncode
    if status != 0:
        raise CliError(f"{harness.title} was not installed: its command ended with status {status}: {command.strip()}")
    return folder
