"""The weights service as a process, with a real JetStream and its archive on a real store.

Candidates are archived, the command leads back to a version that the trainer's folder no longer has, and a death in
between is survived.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drivetrain.common.bus.nats import NatsBus, connect
from drivetrain.common.events import WeightsCandidate
from drivetrain.common.settings import BusSettings
from drivetrain.common.store import CheckpointStore, Probe
from drivetrain.common.store.blobs import open_blobs
from drivetrain.common.store.lives import State, read_lives
from tests.stores import stepped, weights, write_checkpoint
from tests.vllm_double import VllmDouble


@dataclass
class World:
    """One policy: the trainer's folder, a replica, the bus, and how to start the service and the command."""

    policy: str
    store: CheckpointStore
    replica: VllmDouble
    bus: NatsBus
    environment: dict[str, str]

    @contextmanager
    def service(self) -> Iterator["subprocess.Popen[bytes]"]:
        process = subprocess.Popen([sys.executable, "-m", "drivetrain.weights"], env=self.environment)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)

    async def command(self, *arguments: str) -> tuple[int, str]:
        """`drivetrain weights …`: its status, and all that it printed."""
        program = [sys.executable, "-m", "drivetrain.cli", "weights", *arguments]
        pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
        process = await asyncio.create_subprocess_exec(*program, env=self.environment, **pipes)  # type: ignore[arg-type]
        output, _ = await process.communicate()
        return process.returncode or 0, output.decode()

    async def train(self, versions: range) -> None:
        """Write and announce a chain of versions, each a step from the one before."""
        for version in versions:
            tensors = weights()
            for step in range(1, version):
                tensors = stepped(tensors, seed=step)
            probe = Probe([1, 2, 3], [-1.0, -float(version)])
            parent = version - 1
            manifest = await asyncio.to_thread(
                write_checkpoint, self.store, version, parent, tensors, policy=self.policy, probe=probe
            )
            await self.bus.publish(
                WeightsCandidate(
                    policy=self.policy, version=version, parent=parent, digest=manifest.digest(), step=version, at=0.0
                )
            )

    async def archived(self, count: int) -> list[dict[str, Any]]:
        """The list of versions once `count` are archived and none awaits its decision."""
        blobs = open_blobs(self.environment["DRIVETRAIN_WEIGHTS_ARCHIVE__URL"])
        while True:
            states = [version.state for version in (await read_lives(self.bus, self.policy)).versions.values()]
            stored = await blobs.entries(f"versions/{self.policy}/")
            if len(stored) == len(states) == count and State.CANDIDATE not in states:
                break
            await asyncio.sleep(0.1)
        await blobs.close()
        _, output = await self.command("list", "--json")
        return [json.loads(line) for line in output.splitlines()]


@pytest.fixture(params=["file", "s3", "nats"])
async def world(request: pytest.FixtureRequest, tmp_path: Path, nats_url: str) -> AsyncIterator[World]:
    policy = f"archive-{uuid.uuid4().hex[:8]}"
    urls: dict[str, Callable[[], str]] = {
        "file": lambda: (tmp_path / "archive").as_uri(),
        "s3": lambda: f"{request.getfixturevalue('s3_url')}/{policy}",
        "nats": lambda: f"{nats_url}/{policy}",
    }
    archive, double = urls[request.param](), VllmDouble()
    async with double.listening() as replica:
        settings = {
            "POLICY": policy,
            "STORE": str(tmp_path / "store"),
            "REPLICAS": json.dumps([replica.url]),
            "BUS__URL": nats_url,
            "ARCHIVE__URL": archive,
            "TIMEOUTS__RECONCILE_S": "0.3",
        }
        environment = {
            **os.environ,
            **{f"DRIVETRAIN_WEIGHTS_{name}": value for name, value in settings.items()},
            "DRIVETRAIN_BUS_URL": nats_url,
            "DRIVETRAIN_HOME": str(tmp_path / "home"),
        }
        bus = await connect(BusSettings(url=nats_url))
        yield World(policy, CheckpointStore(tmp_path / "store"), replica, bus, environment)
        await bus.close()


async def test_versions_are_archived_and_a_rollback_serves_one_that_only_the_archive_has(world: World) -> None:
    with world.service():
        await world.train(range(1, 5))
        rows = await world.archived(4)
        assert [(row["kind"], row["state"]) for row in rows] == [
            ("full", "promoted"),
            ("delta", "promoted"),
            ("delta", "promoted"),
            ("delta", "serves"),
        ]
        for version in (1, 2, 3):
            shutil.rmtree(world.store.path(world.policy, version))
        status, output = await world.command("rollback", "2", "--reason", "replies too short", "--json")
        assert (status, json.loads(output)["withdrawn"]) == (0, [4, 3])
        await world.replica.serves(2)
        assert world.replica.folder == world.store.root / ".archive" / world.policy / "00000002"
        # A version that was withdrawn is no way back, and one that never was is none either
        for nowhere in ("4", "9"):
            status, output = await world.command("rollback", nowhere, "--reason", "x")
            assert status == 1
            assert f"the weights service refused: version {nowhere} is no ancestor of version 2" in output


@pytest.mark.parametrize("world", ["file"], indirect=True)
async def test_what_was_collected_everywhere_is_no_way_back_and_what_serves_serves_on(world: World) -> None:
    with world.service():
        await world.train(range(1, 3))
        await world.archived(2)
    # 2 serves and is a delta of 1, so a collection keeps both
    shutil.rmtree(world.store.path(world.policy, 1))
    status, output = await world.command("gc", "--keep", "0", "--json")
    assert (status, json.loads(output)["versions"]) == (0, [])
    await _remove(world, 1)
    with world.service():
        status, output = await world.command("rollback", "1", "--reason", "x")
        assert status == 1
        assert "the weights service refused: there is no checkpoint" in output
        assert f"{world.policy}@1 is not in the archive" in output
        assert world.replica.version == "2"


async def _remove(world: World, version: int) -> None:
    """Remove a version from the archive by hand."""
    blobs = open_blobs(world.environment["DRIVETRAIN_WEIGHTS_ARCHIVE__URL"])
    await blobs.delete(f"versions/{world.policy}/{version:08d}.json")
    await blobs.close()


@pytest.mark.slow
@pytest.mark.parametrize("world", ["file"], indirect=True)
async def test_a_service_killed_while_it_archives_takes_it_up_again(world: World) -> None:
    with world.service() as service:
        await world.train(range(1, 2))
        await world.archived(1)
        await world.train(range(2, 5))
        service.send_signal(signal.SIGKILL)
        service.wait()
    with world.service():
        rows = await world.archived(4)
        assert [row["version"] for row in rows] == [1, 2, 3, 4]
        assert rows[3]["state"] == "serves"
        await world.replica.serves(4)
