"""The orchestrator is killed in the middle of a run, twice, and every rollout still counts once."""

import asyncio
import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from drivetrain.cli.rollouts import standings
from drivetrain.common.bus import NatsBus, connect
from drivetrain.common.events import RolloutCancel, RolloutFinished, RolloutRef, RolloutRequested, Signal
from drivetrain.common.settings import BusSettings
from tests.sandboxes import BACKENDS
from tests.servers import free_port, nats_command, running
from tests.service_processes import service, until

ROLLOUTS = 8


def settings(nats_url: str, folder: Path, isolation: str) -> dict[str, str]:
    return {
        "BUS__URL": nats_url,
        "PROXY_URL": "http://127.0.0.1:9",
        "NETWORK": "machine",
        "SECRET": "a secret of this test alone",
        "WORK_FOLDER": str(folder / "work"),
        "ISOLATION": isolation,
        "CONCURRENCY": "2",
        "ATTEMPTS": "5",
        "READABLE": json.dumps([str(folder / "shared")]),
    }


async def request(bus: NatsBus, run: str, shared: Path, script: str) -> None:
    for number in range(ROLLOUTS):
        command = script.format(marks=shared, number=number)
        task: dict[str, object] = {
            "name": "t",
            "instruction": "wait",
            "command": command,
            "verify": {"command": "grep -q done out"},
        }
        ref = RolloutRef(run=run, group=str(number // 4), rollout=str(number), group_size=4)
        await bus.publish(RolloutRequested(rollout=ref, policy="p", task=task, timeout_s=60, at=time.time()))


async def ends(bus: NatsBus, run: str) -> list[RolloutFinished]:
    found = [stored.event for stored in await bus.last("ROLLOUTS", f"rollout.finished.{run}.*")]
    return [event for event in found if isinstance(event, RolloutFinished)]


@pytest.mark.parametrize("isolation", ["bubblewrap"] if "bubblewrap" in BACKENDS else ["none"])
async def test_a_run_survives_the_orchestrators_death(tmp_path: Path, isolation: str) -> None:
    port = free_port()
    (tmp_path / "shared").mkdir()
    with running(nats_command(port, tmp_path / "nats"), port, tmp_path / "nats.log"):
        url = f"nats://127.0.0.1:{port}"
        bus = await connect(BusSettings(url=url))
        own = settings(url, tmp_path, isolation)
        await request(bus, "run", tmp_path / "shared", "sleep 0.4; echo done > out")
        for done in (2, 4):
            async with service("orchestrator", tmp_path / "o.log", own) as process:
                await until(lambda done=done: reached(bus, done))  # type: ignore[misc]
                process.kill()
                await process.wait()
        async with service("orchestrator", tmp_path / "o.log", own):
            await until(lambda: reached(bus, ROLLOUTS))
            await asyncio.sleep(0.5)
        found = await ends(bus, "run")
        signals = [stored.event for stored in await bus.last("SIGNALS", "signal.outcome.>")]
        stood = await standings(bus, "run")
        await bus.close()
    assert Counter(end.reason for end in found) == {"success": ROLLOUTS}
    assert Counter(end.rollout.group for end in found) == {"0": 4, "1": 4}
    assert max(end.attempts for end in found) > 1
    told = Counter(signal.rollout.rollout for signal in signals if isinstance(signal, Signal) and signal.rollout)
    assert told == {str(number): 1 for number in range(ROLLOUTS)}
    assert [one.state for one in stood] == ["finished"] * ROLLOUTS
    assert os.listdir(tmp_path / "work" / "leases") == []


async def reached(bus: NatsBus, count: int) -> bool | None:
    return len(await ends(bus, "run")) >= count or None


async def test_a_run_is_cancelled_while_it_runs_and_while_nobody_does(tmp_path: Path) -> None:
    port = free_port()
    with running(nats_command(port, tmp_path / "nats"), port, tmp_path / "nats.log"):
        url = f"nats://127.0.0.1:{port}"
        bus = await connect(BusSettings(url=url))
        await request(bus, "run", tmp_path, "sleep 600")
        async with service("orchestrator", tmp_path / "o.log", settings(url, tmp_path, "none")) as process:
            await until(lambda: under_way(bus))
            process.kill()
            await process.wait()
        for one in await standings(bus, "run"):
            await bus.publish(RolloutCancel(rollout=one.ref, detail="enough", at=time.time()))
        async with service("orchestrator", tmp_path / "o.log", settings(url, tmp_path, "none")):
            await until(lambda: reached(bus, ROLLOUTS))
        found = await ends(bus, "run")
        await bus.close()
    assert {(end.reason, end.outcome) for end in found} == {("cancelled", None)}
    assert os.listdir(tmp_path / "work" / "leases") == []


async def under_way(bus: NatsBus) -> bool | None:
    return [one.state for one in await standings(bus, "run")].count("running") == 2 or None
