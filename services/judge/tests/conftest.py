"""A real JetStream for the judge's tests, started once when one of them asks for it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from drivetrain.common.bus import NatsBus, connect
from drivetrain.common.settings import BusSettings
from tests.judge_world_nats import Real
from tests.servers import free_port, nats_command, running


@pytest.fixture(scope="session")
def judge_nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the judge's tests alone: they empty its streams."""
    folder, port = tmp_path_factory.mktemp("judge-nats"), free_port()
    with running(nats_command(port, folder / "data"), port, folder / "log"):
        yield f"nats://127.0.0.1:{port}"


@pytest.fixture
async def bus(judge_nats_url: str) -> AsyncIterator[NatsBus]:
    bus = await connect(BusSettings(url=judge_nats_url))
    yield bus
    await bus.close()


@pytest.fixture
async def real(bus: NatsBus) -> Real:
    return await Real(bus).empty()
