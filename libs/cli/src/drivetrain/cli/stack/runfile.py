"""`run.json` in the run folder: what other commands need to know about a running stack."""

import os
from pathlib import Path

import msgspec

from drivetrain.cli.errors import CliError
from drivetrain.cli.lock import is_held, read_holder
from drivetrain.cli.paths import data_dir

RUN_FILE = "run.json"


class StackUrls(msgspec.Struct, frozen=True):
    """Where everything listens, all on the loopback interface. `proxy` lacks `/v1`; `admin` is by service."""

    proxy: str
    nats: str
    nats_monitor: str
    valkey: str
    vllm: str
    admin: dict[str, str]


class RunProcess(msgspec.Struct, frozen=True):
    """One process of the run, as of the last change."""

    pid: int | None
    state: str
    restarts: int
    log: str


class Run(msgspec.Struct, frozen=True):
    """A stack that runs, or ran."""

    pid: int
    started_at: float
    run_dir: str
    model: str
    policy: str
    method: str
    urls: StackUrls
    processes: dict[str, RunProcess]

    def write(self) -> None:
        """Replace the run file in one step, so that a reader sees the old or the new one."""
        target = Path(self.run_dir) / RUN_FILE
        fresh = target.with_suffix(".new")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(self)))
        os.replace(fresh, target)


def read_run(run_dir: Path) -> Run:
    """The run file of a folder.

    Raises:
        CliError: there is none, or it was written by another version.
    """
    try:
        return msgspec.json.decode((run_dir / RUN_FILE).read_bytes(), type=Run)
    except FileNotFoundError:
        raise CliError(f"{run_dir} holds no run file ({RUN_FILE}): it is not the folder of a run") from None
    except msgspec.DecodeError as error:
        raise CliError(f"{run_dir / RUN_FILE} cannot be read ({error}): start the stack again") from error


def running() -> Run:
    """The stack that runs on this machine.

    Raises:
        CliError: none does, or it has not got as far as its run file.
    """
    holder = read_holder(data_dir())
    if holder is None or not is_held(data_dir()):
        raise CliError("no stack is running: start one with `drivetrain up`")
    return read_run(Path(holder.run_dir))
