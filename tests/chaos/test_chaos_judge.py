"""Two judge replicas as processes on a real JetStream; one is killed with SIGKILL in the middle of its work."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drivetrain.common.bus import NatsBus, connect
from drivetrain.common.events import TurnFollowed, TurnScored
from drivetrain.common.settings import BusSettings
from tests.chaos.deployment import Server
from tests.servers import free_port, nats_command, running

TURNS = 1500
KILLED_AT = 150


def followed(number: int) -> TurnFollowed:
    said = ["Thanks!", "Too long.", "How do tides work?"][number % 3]
    return TurnFollowed(
        tenant="acme",
        policy="p",
        session=f"s{number % 50}",
        turn=f"t{number}",
        n=0,
        messages=[{"role": "user", "content": said}],
        before=[{"role": "user", "content": "What is rain?"}],
        reply={"role": "assistant", "content": "water"},
        at=1.0,
    )


def judge(folder: Path, bus: str, environment: dict[str, str]) -> Server:
    port = free_port()
    command = [sys.executable, "-m", "drivetrain.judge", "--bus.url", bus, "--ack_wait_s", "2"]
    return Server([*command, "--admin.port", str(port)], port, folder / f"judge-{port}.log", environment)


@pytest.fixture
async def replicas(
    tmp_path: Path, environment_without_settings: dict[str, str]
) -> AsyncIterator[tuple[NatsBus, list[Server]]]:
    port = free_port()
    with running(nats_command(port, tmp_path / "data"), port, tmp_path / "nats.log"):
        url = f"nats://127.0.0.1:{port}"
        bus = await connect(BusSettings(url=url))
        servers = [judge(tmp_path, url, environment_without_settings) for _ in range(2)]
        try:
            for server in servers:
                server.start()
            for server in servers:
                await server.listening()
            yield bus, servers
        finally:
            for server in servers:
                server.kill()
            await bus.close()


async def stored(bus: NatsBus, stream: str) -> int:
    return int((await bus.js.stream_info(stream)).state.messages)


async def test_a_replica_killed_in_mid_batch_loses_no_turn_and_scores_none_twice(
    replicas: tuple[NatsBus, list[Server]],
) -> None:
    bus, (first, second) = replicas
    async with asyncio.timeout(90):
        publishing = asyncio.gather(*(bus.publish(followed(number)) for number in range(TURNS)))
        while await stored(bus, "SCORES") < KILLED_AT:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        first.kill()
        assert await stored(bus, "SCORES") < TURNS
        await publishing
        assert second.process is not None
        while await stored(bus, "SCORES") < TURNS:
            assert second.process.poll() is None, second.log.read_text()[-3000:]
            await asyncio.sleep(0.02)
        while (await bus.js.consumer_info("TURNS", "judge-rules-turns-0")).num_ack_pending:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    scores = [item.event async for item in bus.replay("SCORES", "turn.scored.>")]
    counted = Counter(score.turn for score in scores if isinstance(score, TurnScored))
    assert counted == {f"t{number}": 1 for number in range(TURNS)}
    rewards = {score.turn: score.reward for score in scores if isinstance(score, TurnScored)}
    assert all(rewards[f"t{number}"] == (1, -1, 0)[number % 3] for number in range(TURNS))
    assert await stored(bus, "SCORES") == TURNS
    assert await stored(bus, "DEAD") == 0
