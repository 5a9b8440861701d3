"""`python -m drivetrain.orchestrator gc`: remove the sandboxes that no rollout needs, where no orchestrator runs."""

import asyncio
import sys
import time

from drivetrain.common.bus.nats import connect
from drivetrain.common.errors import CannotStart
from drivetrain.common.telemetry.logs import configure_logs
from drivetrain.orchestrator.backends.base import BackendError
from drivetrain.orchestrator.backends.making import open_backend
from drivetrain.orchestrator.lifecycle.attempts import sandboxes
from drivetrain.orchestrator.lifecycle.recovery import unfinished
from drivetrain.orchestrator.settings import OrchestratorSettings
from drivetrain.orchestrator.work_folder import FolderInUse, claimed


def main(settings: OrchestratorSettings) -> None:
    """Remove and say how much; ends the process with status 1 if it cannot."""
    configure_logs("orchestrator", settings.log)
    try:
        ended = asyncio.run(collect(settings))
    except (FolderInUse, BackendError, CannotStart) as error:
        sys.stderr.write(f"drivetrain rollout gc: {error}\n")
        raise SystemExit(1) from None
    sys.stdout.write(f"Ended {ended} processes or pods.\n")


async def collect(settings: OrchestratorSettings) -> int:
    """Remove every sandbox, except those that outlive their orchestrator and whose rollout has not ended."""
    folder = settings.work_folder.expanduser().absolute()
    with claimed(folder):
        backend = await open_backend(settings, folder)
        try:
            return await backend.reap(await _needed(settings) if backend.outlives else frozenset())
        finally:
            await backend.close()


async def _needed(settings: OrchestratorSettings) -> frozenset[str]:
    """The sandboxes of attempts that the next orchestrator will go on with."""
    bus = await connect(settings.bus)
    try:
        return frozenset([name async for job in unfinished(bus, time.time(), True) for name in sandboxes(job)])
    finally:
        await bus.close()
