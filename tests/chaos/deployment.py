"""The processes that the chaos tests break, each with a store that outlives it."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from drivetrain.common.bus import Bus
from tests.chaos.engine import Engine
from tests.servers import answers

START_S = 100.0


@dataclass
class Server:
    """A process that can be killed and started again with what it had stored."""

    command: list[str]
    port: int
    log: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self.environment)

    def kill(self) -> None:
        """SIGKILL: no last words."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    async def listening(self) -> None:
        async with asyncio.timeout(START_S):
            while True:
                if answers(self.port):
                    return
                assert self.process is not None
                assert self.process.poll() is None, self.log.read_text()[-3000:]
                await asyncio.sleep(0.02)


@dataclass
class Proxy(Server):
    """A proxy replica; its spool folder outlives it."""

    admin: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def ready(self) -> None:
        async with asyncio.timeout(START_S), aiohttp.ClientSession() as http:
            await self.listening()
            while True:
                if (await http.get(f"http://127.0.0.1:{self.admin}/readyz")).status == 200:
                    return
                await asyncio.sleep(0.05)


@dataclass
class Deployment:
    """Everything that runs. `bus` is the tests' own connection."""

    nats: Server
    valkey: Server
    proxies: list[Proxy]
    engine: Engine
    bus: Bus


def proxy(folder: Path, ports: list[int], environment: dict[str, str], settings: dict[str, str]) -> Proxy:
    """A proxy with its spool in its own folder."""
    folder.mkdir()
    own = {"LISTEN__PORT": str(ports[0]), "ADMIN__PORT": str(ports[1]), "SPOOL__FOLDER": str(folder / "spool")}
    prefixed = {f"DRIVETRAIN_PROXY_{name}": value for name, value in (settings | own).items()}
    command = [sys.executable, "-m", "drivetrain.proxy"]
    return Proxy(command, ports[0], folder / "log", environment | prefixed, admin=ports[1])
