"""A NATS server with its store in a file, and judge replicas as processes of their own."""

import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from benchmarks.proxy.processes import free_port, running
from drivetrain.common.bus import NatsBus, connect
from drivetrain.common.settings import BusSettings

NATS = Path(sys.executable).parent / "nats-server"


@contextlib.asynccontextmanager
async def server(folder: Path) -> AsyncIterator[tuple[NatsBus, str, int]]:
    """A fresh JetStream: a connection, its URL, the server's pid."""
    port = free_port()
    command = [str(NATS), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder / "nats")]
    folder.mkdir(parents=True)  # noqa: ASYNC240  a benchmark has nothing else to do
    with running(command, port, folder / "nats.log") as pid:
        bus = await connect(BusSettings(url=f"nats://127.0.0.1:{port}"))
        try:
            yield bus, f"nats://127.0.0.1:{port}", pid
        finally:
            await bus.close()


@contextlib.contextmanager
def judges(url: str, folder: Path, replicas: int) -> Iterator[list[int]]:
    """So many judges with default settings; gives their pids once they listen."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_judge(url, folder / f"judge-{number}.log")) for number in range(replicas)]


def _judge(url: str, log: Path) -> "contextlib.AbstractContextManager[int]":
    port = free_port()
    command = [sys.executable, "-m", "drivetrain.judge", "--bus.url", url, "--admin.port", str(port)]
    return running(command, port, log)
