"""A lease on this machine: a folder, and the commands that run in it one after the other."""

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from drivetrain.orchestrator.backends.base import PLACES, BackendError, CannotExec, Command, Exit, Sandbox
from drivetrain.orchestrator.backends.process.bubblewrap import PROXY_URL, Bubblewrap
from drivetrain.orchestrator.backends.process.disk import until_full
from drivetrain.orchestrator.backends.process.limits import Limits, by_rlimits
from drivetrain.orchestrator.backends.process.processes import count_of
from drivetrain.orchestrator.backends.process.running import MARK, Ground, run, sweep
from drivetrain.orchestrator.backends.process.sockets import close_socket
from drivetrain.orchestrator.running.trees import copy_out, make_real, merge_tree, read_head, remove

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
CONFINED = {"home": "/home/agent", "tmp": "/tmp"}
"""Where a confined command finds its folders; the others lie at the root, under their names."""

T = TypeVar("T")


class ProcessLease:
    """See `Lease` for the contract. `socket` is the way to the proxy of a command without a network."""

    def __init__(
        self,
        sandbox: Sandbox,
        ground: Ground,
        limits: Limits,
        *,
        path: tuple[Path, ...] = (),
        keep: bool = False,
        bubblewrap: Bubblewrap | None = None,
        closed: bool = False,
        socket: Path | None = None,
    ) -> None:
        self.folder = ground.folder
        self.places: Mapping[str, str] = _places(self.folder, sandbox.workdir, bubblewrap is not None)
        self._access = sandbox.access
        self.proxy_url = PROXY_URL if socket else sandbox.access.url if sandbox.access else ""
        self._ground, self._limits, self._path, self._keep = ground, limits, path, keep
        self._bubblewrap, self._closed, self._socket = bubblewrap, closed, socket

    async def exec(self, command: Command) -> Exit:
        if (stored := self._stored(command)) is not None:
            return stored
        environment = self._environment(command)
        program = shutil.which(command.argv[0], path=environment["PATH"])
        if program is None:
            raise CannotExec(f"{command.argv[0]} was not found in {environment['PATH']}")
        argv = [*self._limited(), program, *command.argv[1:]]
        if self._bubblewrap is not None:
            binds = {str(self.folder / place): path for place, path in self.places.items()}
            argv = self._bubblewrap.wrap(argv, binds, self.places["work"], self._closed, self._socket)
        ended = await run(
            argv, environment, self._ground, command.timeout_s, partial(until_full, self.folder, self._limits)
        )
        await self._store(command, ended)
        return ended

    async def began(self, id: str) -> bool:  # noqa: A002
        return (self.folder / "exits" / id).is_file()

    async def upload(self, tree: Path, to: str) -> None:
        await _copying(merge_tree, tree, self.folder / to)

    async def download(self, path: str, to: Path) -> bool:
        return await _copying(copy_out, self.folder, path, to)

    async def read(self, path: str, limit: int) -> bytes | None:
        return await _copying(read_head, self.folder, path, limit)

    async def logs(self, limit: int) -> str:
        log = self.folder / "output.log"
        if not log.is_file():
            return ""
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4 * limit))
            return file.read().decode("utf-8", errors="replace").strip()[-limit:]

    async def stop(self) -> None:
        await sweep(self._ground)
        if self._ground.group is not None:
            await asyncio.to_thread(self._ground.group.remove)
        if self._socket is not None and self._access is not None:
            await close_socket(self._access)
        if not self._keep:
            await _copying(remove, self.folder)

    def _limited(self) -> Sequence[str]:
        """Inside of bubblewrap, where a user has no processes yet."""
        if self._ground.group is not None or self._bubblewrap is not None:
            return by_rlimits(self._limits, self._ground.group is not None)
        return by_rlimits(self._limits, False, count_of(os.getuid()))

    def _environment(self, command: Command) -> dict[str, str]:
        path = os.pathsep.join([*map(str, self._path), SYSTEM_PATH])
        own = {variable: self.places[place] for place, variable in PLACES.items()}
        return {"PATH": path, "LANG": "C.UTF-8", **command.environment, **own, MARK: str(self.folder)}

    def _stored(self, command: Command) -> Exit | None:
        path = self.folder / "exits" / (command.id or "")
        return msgspec.json.decode(path.read_bytes(), type=Exit) if command.id and path.is_file() else None

    async def _store(self, command: Command, ended: Exit) -> None:
        if command.id:
            path = self.folder / "exits" / command.id
            await _copying(path.write_bytes, msgspec.json.encode(ended))


def make_folders(folder: Path) -> None:
    """The places of a lease, and what it remembers.

    Raises:
        BackendError: the disk refuses.
    """
    try:
        for place in (*PLACES, "exits"):
            make_real(folder / place)
        make_real(folder / "logs" / "verifier")
    except OSError as error:
        raise BackendError(f"cannot create {folder}: {error.strerror}") from error


def _places(folder: Path, workdir: str, confined: bool) -> dict[str, str]:
    if not confined:
        return {place: str(folder / place) for place in PLACES}
    return {**{place: f"/{place}" for place in PLACES}, **CONFINED, "work": workdir}


async def _copying(function: Callable[..., T], *arguments: object) -> T:
    """Run a copying function off the event loop."""
    try:
        return await asyncio.to_thread(function, *arguments)
    except OSError as error:
        raise BackendError(f"copying failed: {error}") from error
