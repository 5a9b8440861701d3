"""What the measurements need around an orchestrator: a bus, and enough of a proxy."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from drivetrain.common.bus.nats import NatsBus, connect
from drivetrain.common.events import RolloutFinished, RolloutRef, RolloutRequested
from drivetrain.common.settings import BusSettings
from tests.servers import free_port, nats_command, running

SECRET = "a secret of this benchmark alone"


@asynccontextmanager
async def a_bus(folder: Path) -> AsyncIterator[tuple[str, NatsBus]]:
    """A server with its store in a folder."""
    port = free_port()
    with running(nats_command(port, folder / "nats"), port, folder / "nats.log"):
        bus = await connect(BusSettings(url=f"nats://127.0.0.1:{port}"))
        yield f"nats://127.0.0.1:{port}", bus
        await bus.close()


class Proxy:
    """Opens a unix socket for whoever asks, and notes when each call came through one."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._sockets = folder, list[asyncio.AbstractServer]()
        self.calls: list[float] = []
        self.url = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Proxy"]:
        self._folder.mkdir(parents=True, exist_ok=True)
        server = await asyncio.start_server(self._outside, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self
        for socket in self._sockets:
            socket.close()

    async def _outside(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        body = b""
        if request.startswith(b"PUT "):
            path = self._folder / f"{len(self._sockets)}.sock"
            self._sockets.append(await asyncio.start_unix_server(self._inside, path))
            body = f'{{"path": "{path}"}}'.encode()
        await _answer(writer, body)

    async def _inside(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            self.calls.append(time.time())
            await _answer(writer, b"{}")


async def _answer(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()
    writer.close()


async def ask(bus: NatsBus, run: str, count: int, command: str) -> None:
    """Request rollouts of a task that the command solves."""
    task: dict[str, object] = {"name": "t", "instruction": "-", "command": command, "verify": {"command": "true"}}
    for number in range(count):
        ref = RolloutRef(run=run, group=str(number // 8), rollout=str(number), group_size=8)
        wish = RolloutRequested(rollout=ref, policy="p", task=task, timeout_s=60, at=time.time())
        await bus.publish(wish)


async def ended(bus: NatsBus, run: str, count: int, limit_s: float = 1200.0) -> list[RolloutFinished]:
    """The ends of a run, when all are there."""
    async with asyncio.timeout(limit_s):
        last = f"rollout.finished.{run}.>"
        found: list[RolloutFinished] = []
        while len(found) < count:
            await asyncio.sleep(0.25)
            found = [one.event async for one in bus.replay("ROLLOUTS", last) if isinstance(one.event, RolloutFinished)]
    return found
