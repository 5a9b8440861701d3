"""The backends that the contract is told of, each made for one test and cleaned up after it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from drivetrain.orchestrator.backends.base import Backend, BackendError
from drivetrain.orchestrator.backends.making import confinement, groups
from drivetrain.orchestrator.backends.process.backend import ProcessBackend


def _works() -> bool:
    try:
        return confinement("bubblewrap", Path("/nowhere"), ()) is not None
    except BackendError:
        return False


BACKENDS = [*(["bubblewrap"] if _works() else []), "plain"]


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[Backend]:
    """One backend by its name; what it holds in the end is removed."""
    leases = folder / "leases"
    bubblewrap = confinement("bubblewrap", leases, ()) if kind == "bubblewrap" else None
    cgroups = groups("drivetrain", leases) if kind == "bubblewrap" else None
    backend = ProcessBackend(leases, grace_s=0.5, bubblewrap=bubblewrap, cgroups=cgroups)
    try:
        yield backend
    finally:
        await backend.reap()
