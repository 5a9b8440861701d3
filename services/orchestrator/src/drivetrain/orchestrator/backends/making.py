"""The backend that the settings ask for."""

import hashlib
from pathlib import Path

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.orchestrator.backends.base import Backend, BackendError
from drivetrain.orchestrator.backends.process.backend import ProcessBackend
from drivetrain.orchestrator.backends.process.bubblewrap import Bubblewrap, find_program, readable_for
from drivetrain.orchestrator.backends.process.cgroups import Cgroups, detect
from drivetrain.orchestrator.settings import OrchestratorSettings

log = get_logger("orchestrator")


async def open_backend(settings: OrchestratorSettings, folder: Path) -> Backend:
    """The backend of these settings; one on this machine has its leases under a folder.

    Raises:
        BackendError: the settings demand what does not work here.
    """
    if settings.backend == "kubernetes":
        from drivetrain.orchestrator.backends.kubernetes.backend import open_backend as open_cluster

        return await open_cluster(settings.kubernetes)
    leases = folder / "leases"
    path = tuple(entry.expanduser().absolute() for entry in settings.harness_path)
    backend = ProcessBackend(
        leases,
        path,
        settings.grace_s,
        settings.keep_workdirs,
        confinement(settings.isolation, leases, (*readable_for(path), *settings.readable)),
        groups(settings.cgroup, leases),
        settings.limits.ceilings,
        settings.network,
    )
    log.info("sandboxes on this machine", **backend.means)
    return backend


def groups(parent: str, leases: Path) -> Cgroups | None:
    """The control groups for the leases of a folder; None where there are none, or none are wanted."""
    prefix = hashlib.blake2b(str(leases).encode(), digest_size=5).hexdigest()
    return detect(parent, f"{prefix}.") if parent else None


def confinement(isolation: str, leases: Path, readable: tuple[Path, ...]) -> Bubblewrap | None:
    """Bubblewrap, checked, or None for commands that are not confined.

    Raises:
        BackendError: the setting demands what does not work here.
    """
    if isolation == "none":
        return None
    try:
        if (program := find_program()) is None:
            raise BackendError("there is no bubblewrap: install it (apt install bubblewrap), or set isolation to none")
        bubblewrap = Bubblewrap(program, readable, leases)
        bubblewrap.check()
    except BackendError as error:
        if isolation == "bubblewrap":
            raise
        log.warning("commands are not confined", reason=str(error))
        return None
    return bubblewrap
