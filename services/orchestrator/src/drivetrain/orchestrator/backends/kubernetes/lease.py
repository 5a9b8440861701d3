"""A lease in a cluster: one Job's pod, in which a supervisor runs commands one after the other."""

import asyncio
import io
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import IO

from drivetrain.orchestrator.backends.base import PLACES, BackendError, CannotExec, Command, Exit, Sandbox
from drivetrain.orchestrator.backends.kubernetes import scripts
from drivetrain.orchestrator.backends.kubernetes.exec import Channel, ChannelBroke, Done, TooLarge
from drivetrain.orchestrator.backends.kubernetes.objects import places
from drivetrain.orchestrator.backends.kubernetes.packing import pack, unpack
from drivetrain.orchestrator.backends.kubernetes.state import Standing
from drivetrain.orchestrator.running.trees import MAX_BYTES, TooMuch

SMALL = 65_536
PAUSE_S = 0.2
SWEEP_S = 10.0
SWEPT = (137, 143)
"""Exit statuses of scripts that were ended by a signal."""


class Gone(BackendError):
    """The sandbox ended; `standing` says how."""

    def __init__(self, standing: Standing) -> None:
        super().__init__(f"the sandbox ended: {standing.why}")
        self.standing = standing


class KubernetesLease:
    """See `Lease` for the contract. `stands` says where the sandbox stands now, `remove` removes it."""

    def __init__(
        self,
        sandbox: Sandbox,
        pod: str,
        channel: Channel,
        stands: Callable[[], Standing],
        remove: Callable[[], Awaitable[None]],
    ) -> None:
        self.places: Mapping[str, str] = places(sandbox.workdir)
        self.proxy_url = sandbox.access.url if sandbox.access else ""
        self._key = sandbox.access.key if sandbox.access else ""
        self._pod, self._channel, self._stands, self._remove = pod, channel, stands, remove

    async def exec(self, command: Command) -> Exit:
        own = {variable: self.places[place] for place, variable in PLACES.items()}
        environment = {"LANG": "C.UTF-8", **command.environment, **own}
        script = scripts.command_script(command.argv, environment, self.places["work"], self._key).encode()
        name, begun = command.id or uuid.uuid4().hex, time.monotonic()
        try:
            told = await self._ask(scripts.BEGIN, name, str(len(script)), f"{command.timeout_s:g}", given=script)
        except Gone as gone:
            if gone.standing.limit is None:
                raise
            return Exit(-9, False, time.monotonic() - begun, (gone.standing.limit,))
        except asyncio.CancelledError:
            await asyncio.shield(self._sweep())  # it would go on without us
            raise
        status, late = map(int, told.split())
        if status == scripts.MISSING and not late:
            raise CannotExec(f"{command.argv[0]} was not found in the image")
        return Exit(128 - status if status > 128 else status, bool(late), time.monotonic() - begun)

    async def began(self, id: str) -> bool:  # noqa: A002
        return (await self._run(scripts.BEGAN, id, to=io.BytesIO())).status == 0

    async def upload(self, tree: Path, to: str) -> None:
        with tempfile.TemporaryFile() as packed:
            size = await asyncio.to_thread(pack, tree, packed)
            done = await self._run(scripts.UPLOAD, self.places[to], str(size), given=packed, to=io.BytesIO())
        if done.status:
            raise BackendError(f"copying into the sandbox failed: {done.told}")

    async def download(self, path: str, to: Path) -> bool:
        place, _, inside = path.partition("/")
        with tempfile.TemporaryFile() as packed, tempfile.TemporaryDirectory() as folder:
            try:
                done = await self._run(scripts.DOWNLOAD, self.places[place], inside, to=packed, limit=2 * MAX_BYTES)
            except TooLarge:
                raise TooMuch(f"more than {MAX_BYTES // 1024**2} MiB") from None
            if done.status == scripts.NOT_THERE:
                return False
            if done.status:
                raise BackendError(f"copying out of the sandbox failed: {done.told}")
            packed.seek(0)
            await asyncio.to_thread(unpack, packed, Path(folder), to)
        return True

    async def read(self, path: str, limit: int) -> bytes | None:
        place, _, inside = path.partition("/")
        found = io.BytesIO()
        done = await self._run(scripts.READ, self.places[place], inside, str(limit), to=found, limit=limit)
        return found.getvalue() if done.status == 0 else None

    async def logs(self, limit: int) -> str:
        found = io.BytesIO()
        await self._run(scripts.LOGS, str(4 * limit), to=found, limit=4 * limit)
        return found.getvalue().decode(errors="replace").strip()[-limit:]

    async def stop(self) -> None:
        await self._remove()

    async def _sweep(self) -> None:
        """End what runs in the sandbox; the sandbox itself, if that cannot be done."""
        try:
            sweep = self._channel.run(self._pod, scripts.SWEEP, to=io.BytesIO(), limit=SMALL)
            done = await asyncio.wait_for(sweep, SWEEP_S)
        except (BackendError, TimeoutError):
            await self._remove()
        else:
            if done.status not in (0, *SWEPT):
                await self._remove()

    async def _ask(self, script: str, *arguments: str, given: bytes) -> str:
        """What a script answers."""
        found = io.BytesIO()
        done = await self._run(script, *arguments, given=io.BytesIO(given), to=found)
        if done.status:
            raise BackendError(f"the sandbox took no command: {done.told or done.status}")
        return found.getvalue().decode()

    async def _run(
        self, script: str, *arguments: str, given: IO[bytes] | None = None, to: IO[bytes], limit: int = SMALL
    ) -> Done:
        """Run a script, and again while there is a sandbox: the end of a command sweeps all scripts away.

        Raises:
            Gone: there is none any more.
        """
        while True:
            if (stands := self._stands()).over:
                raise Gone(stands)
            try:
                done = await self._channel.run(self._pod, script, *arguments, given=given, to=to, limit=limit)
                if done.status not in SWEPT:
                    return done
            except ChannelBroke:
                # The pod ended, which the watch will say, or only the connection did
                await asyncio.sleep(PAUSE_S)
            for stream in (given, to):
                if stream is not None:
                    stream.seek(0)
            to.truncate()
