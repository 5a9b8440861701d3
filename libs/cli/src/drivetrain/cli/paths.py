"""Where the command keeps things: models in the user's cache folder, runs in the user's data folder.

`DRIVETRAIN_HOME` puts both below one folder of the user's choice.
"""

import os
from datetime import datetime
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """What can be made again: converted models."""
    home = os.environ.get("DRIVETRAIN_HOME")
    return Path(home) / "cache" if home else platformdirs.user_cache_path("drivetrain")


def data_dir() -> Path:
    """What a person may want to keep: runs, and the lock that says one is running."""
    home = os.environ.get("DRIVETRAIN_HOME")
    return Path(home) / "data" if home else platformdirs.user_data_path("drivetrain")


def new_run_dir(kind: str = "up", now: datetime | None = None) -> Path:
    """A fresh folder for one run, named after its kind and start; it exists when this returns."""
    stamp = (now or datetime.now().astimezone()).strftime("%Y%m%d-%H%M%S")
    runs = data_dir() / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        run_dir = runs / f"{kind}-{stamp}{suffix}"
        try:
            run_dir.mkdir()
        except FileExistsError:
            continue
        return run_dir
    raise FileExistsError(f"{runs} has 99 runs of {stamp} already")
