"""Our services as processes of their own, with settings given by environment."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from drivetrain.common.bus import NatsBus
from drivetrain.common.events import Event
from tests.servers import free_port

LIMIT_S = 60.0


@asynccontextmanager
async def service(name: str, log: Path, settings: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """One of our services as a process of its own, ready; told to stop and waited for at the end."""
    admin = free_port()
    prefix = f"DRIVETRAIN_{name.upper()}_"
    own = {prefix + key: value for key, value in {**settings, "ADMIN__PORT": str(admin)}.items()}
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"drivetrain.{name}"), env={**os.environ, **own}, stdout=output, stderr=output
        )
    try:
        await until(lambda: _ready(f"http://127.0.0.1:{admin}/readyz", process, log))
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 15)


async def _ready(url: str, process: asyncio.subprocess.Process, log: Path) -> bool | None:
    assert process.returncode is None, _text(log)
    async with ClientSession() as http:
        try:
            async with http.get(url) as response:
                return response.status == 200 or None
        except OSError:
            return None


def _text(path: Path) -> str:
    return path.read_text()


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(LIMIT_S):
        while (found := await look()) is None:  # noqa: ASYNC110 - other processes bring it about
            await asyncio.sleep(0.05)
    return found


async def event(bus: NatsBus, stream: str, subject: str) -> Event | None:
    stored = await bus.get(stream, subject)
    return stored.event if stored else None
