"""Wires the orchestrator: settings, bus, harnesses, backend, and the loop that takes requests."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drivetrain.common.bus.nats import connect
from drivetrain.common.harnesses import load_harnesses
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.orchestrator.backends.making import make_backend
from drivetrain.orchestrator.orchestrator import Orchestrator
from drivetrain.orchestrator.requests import Planner
from drivetrain.orchestrator.runner import Runner
from drivetrain.orchestrator.settings import OrchestratorSettings
from drivetrain.orchestrator.trees import remove

log = get_logger("orchestrator")


class FolderInUse(RuntimeError):
    """Another orchestrator holds the work folder."""


async def start(lifecycle: Lifecycle, settings: OrchestratorSettings) -> None:
    """Start the orchestrator as a part of a service's life.

    Raises:
        FolderInUse, BackendError, BadDeclaration, BusError: each says what to change.
    """
    folder = settings.work_folder.expanduser().absolute()
    lifecycle.stack.enter_context(claimed(folder))
    backend = make_backend(settings, folder)
    if reaped := await backend.reap():
        log.warning("ended processes of an earlier life", count=reaped)
    harnesses = load_harnesses(settings.harness_folders)
    bus = await connect(settings.bus)
    lifecycle.stack.push_async_callback(bus.close)
    secret = settings.secret.get_secret_value().encode()
    planner = Planner(settings.proxy_url, secret, harnesses, settings.context_tokens, settings.reply_tokens)
    runner = Runner(backend, fresh(folder / "staging"))
    orchestrator = Orchestrator(bus, planner, runner, settings.concurrency, time.time)
    lifecycle.ready_when("taking requests", lambda: orchestrator.serving)
    lifecycle.spawn(orchestrator.serve(), "orchestrator")
    lifecycle.spawn(_drain(lifecycle, orchestrator, settings.drain_s), "drain")


async def _drain(lifecycle: Lifecycle, orchestrator: Orchestrator, patience_s: float) -> None:
    await lifecycle.until_stopped()
    await orchestrator.drain(patience_s)


def fresh(folder: Path) -> Path:
    """An empty folder, whatever an earlier life left there."""
    remove(folder)
    folder.mkdir(parents=True)
    return folder


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold the work folder for this process alone; the kernel lets go of it when the process dies.

    Raises:
        FolderInUse: another orchestrator runs on it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUse(f"{folder} belongs to a running orchestrator: set another work_folder") from error
        yield
