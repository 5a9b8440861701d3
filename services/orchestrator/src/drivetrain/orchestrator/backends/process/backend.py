"""Makes leases on this machine, and finds what an earlier life left of them."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.orchestrator.backends.base import BackendError, Sandbox
from drivetrain.orchestrator.backends.process.bubblewrap import Bubblewrap
from drivetrain.orchestrator.backends.process.cgroups import Cgroups
from drivetrain.orchestrator.backends.process.lease import ProcessLease, make_folders
from drivetrain.orchestrator.backends.process.limits import Limits, means
from drivetrain.orchestrator.backends.process.processes import ProcessesRemain, end_all, supported
from drivetrain.orchestrator.backends.process.running import MARK, Ground
from drivetrain.orchestrator.backends.process.sockets import open_socket
from drivetrain.orchestrator.running.trees import remove

log = get_logger("process-backend")

Network = Literal["auto", "proxy", "machine"]


@dataclass(frozen=True)
class ProcessBackend:
    """Leases under one folder. `path` comes before the system's own folders in a command's PATH; `grace_s` is the
    time between SIGTERM and SIGKILL; with `keep`, a stopped lease's folder stays for inspection; with `bubblewrap`,
    commands are confined, and have no network but the proxy's socket unless `network` gives them the machine's."""

    root: Path
    path: tuple[Path, ...] = ()
    grace_s: float = 2.0
    keep: bool = False
    bubblewrap: Bubblewrap | None = None
    cgroups: Cgroups | None = None
    limits: Limits = field(default_factory=Limits)
    network: Network = "auto"
    outlives: bool = False

    @property
    def fixed_places(self) -> bool:
        return self.bubblewrap is not None

    @property
    def means(self) -> Mapping[str, str]:
        """By what each limit holds here."""
        closed = self.bubblewrap is not None and self.network != "machine"
        version = self.cgroups.version if self.cgroups else None
        return means(self.bubblewrap is not None, closed, version, os.getuid())

    def __post_init__(self) -> None:
        if not supported():
            raise BackendError("the process backend needs Linux with /proc and Python's pidfd functions")
        if not self.root.is_absolute():
            raise BackendError(f"the leases' folder {self.root} is relative: give an absolute path")
        if self.network == "proxy" and self.bubblewrap is None:
            raise BackendError("network = proxy needs bubblewrap: install it, or set network to auto")

    def lacks(self, needs: Sequence[str]) -> Sequence[str]:
        return needs

    def refuses(self, sandbox: Sandbox) -> str:
        return self.limits.refuses(sandbox.resources)

    async def start(self, sandbox: Sandbox) -> ProcessLease:
        folder, limits = self.root / sandbox.name, self.limits.within(sandbox.resources)
        make_folders(folder)
        closed, socket = await self._way_out(sandbox)
        group = self.cgroups.create(sandbox.name, limits) if self.cgroups else None
        return ProcessLease(
            sandbox,
            Ground(folder, group, self.bubblewrap is not None, self.grace_s),
            limits,
            path=self.path,
            keep=self.keep,
            bubblewrap=self.bubblewrap,
            closed=closed,
            socket=socket,
        )

    async def close(self) -> None:
        """Nothing is held open."""

    async def reap(self, keep: frozenset[str] = frozenset()) -> int:
        inside = f"{self.root}{os.sep}"
        kept = {str(self.root / name) for name in keep}
        try:
            ended = await end_all(MARK, lambda found: (found.mark or "").startswith(inside) and found.mark not in kept)
        except ProcessesRemain as error:
            raise BackendError(str(error)) from error
        for name, group in self.cgroups.left() if self.cgroups else []:
            if name not in keep:
                ended += await asyncio.to_thread(group.kill)
                await asyncio.to_thread(group.remove)
        if not self.keep and self.root.is_dir():
            for folder in self.root.iterdir():
                if folder.name not in keep:
                    await asyncio.to_thread(remove, folder)
        return ended

    async def _way_out(self, sandbox: Sandbox) -> tuple[bool, Path | None]:
        """Whether a sandbox has no network of its own, and the proxy's socket for it."""
        if self.bubblewrap is None or self.network == "machine":
            return False, None
        if sandbox.access is None:
            return True, None
        socket = await open_socket(sandbox.access)
        if socket is None and self.network == "proxy":
            raise BackendError("the proxy opens no unix socket on this machine: set its listen.rollouts to a folder")
        if socket is None:
            log.warning("the harness has the machine's network: set the proxy's listen.rollouts to a folder")
        return socket is not None, socket
