"""SIGKILL in mid-step and between checkpoint and acknowledgement, on a real NATS: every scored turn is trained once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from drivetrain.common.bus import Bus, connect
from drivetrain.common.events import Sampling, Span, TurnRecorded, TurnScored
from drivetrain.common.settings import BusSettings
from drivetrain.common.store import CheckpointStore
from drivetrain.common.tokens import pack_ids, pack_logprobs
from drivetrain.trainer.checkpoints.checkpoints import Checkpoints
from tests.servers import wait_until

POLICY = "killed"
TURNS = [f"t{n}" for n in range(8)]
PROCESS = """
import asyncio, sys, time
import drivetrain.trainer.batches.intake as intake
from drivetrain.trainer.__main__ import main
from drivetrain.trainer.batches.inbox import Inbox
from drivetrain.trainer.learning.learner import Learner

async def never(*arguments):
    await asyncio.sleep(600)

intake.ACK_WAIT_S = 2.0
hangs = sys.argv.pop(1)
if hangs == "step":
    Learner.step = lambda *arguments: time.sleep(600)
if hangs == "acknowledgement":
    Inbox.finish = never
main()
"""


@contextmanager
def trainer(hangs: str, nats_url: str, model: Path, store: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A trainer that hangs at a point; killed when the block is left."""
    settings = {
        "bus.url": nats_url, "policy": POLICY, "model": str(model), "store": str(store), "method": "binary",
        "batch.size": "2", "batch.min_size": "2", "max_ahead": "99", "keep": "99", "threads": "1",
    }  # fmt: skip
    flags = [part for name, value in settings.items() for part in (f"--{name}", value)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRIVETRAIN_")}
    with (store.parent / f"{hangs}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", PROCESS, hangs, *flags], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


async def say(bus: Bus, turn: str) -> None:
    """Record a turn and score it."""
    await bus.publish(
        TurnRecorded(
            tenant="t", policy=POLICY, session="s", turn=turn, parent=None, prompt_ids=pack_ids([3, 4]),
            response_ids=pack_ids([40, 41]), logprobs=pack_logprobs([-3.0, -3.0]), versions=[Span(0, 2, 0)],
            sampling=Sampling(), finish="stop", exact=True, messages=[{"role": "user", "content": "x"}],
            reply={"role": "assistant", "content": "y"}, started_at=0.0, finished_at=1.0,
        )
    )  # fmt: skip
    scored = TurnScored(
        tenant="t", policy=POLICY, session="s", turn=turn, n=0, judge="rules", reward=1.0, votes=[], hints=[], at=2.0
    )
    await bus.publish(scored)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_every_turn_is_trained_once_however_often_the_trainer_is_killed(
    nats_url: str, model_folder: Path, tmp_path: Path
) -> None:
    bus = await connect(BusSettings(url=nats_url))
    store = CheckpointStore(tmp_path / "store")
    checkpoints = Checkpoints(store, POLICY, str(model_folder), torch.float32)
    for turn in TURNS:
        await say(bus, turn)
    with trainer("step", nats_url, model_folder, store.root):
        wait_until(lambda: checkpoints.read_plan() is not None, 120, "a batch is planned")
    planned = checkpoints.read_plan()
    assert store.versions(POLICY) == []
    with trainer("acknowledgement", nats_url, model_folder, store.root):
        wait_until(lambda: store.versions(POLICY) == [1], 120, "the planned batch is stored")
        assert checkpoints.read_plan() == planned
    with trainer("nowhere", nats_url, model_folder, store.root):
        wait_until(lambda: store.versions(POLICY) == [1, 2, 3, 4], 120, "all is trained")
    trained = [turn for step in by_step(checkpoints).values() for turn in step]
    assert sorted(trained) == [f"s/{turn}" for turn in TURNS]
    assert {len(turns) for turns in by_step(checkpoints).values()} == {2}
    assert [store.manifest(POLICY, version).metrics["turns"] for version in (1, 2, 3, 4)] == [2] * 4
    await bus.close()


def by_step(checkpoints: Checkpoints) -> dict[int, set[str]]:
    """The turns that each step trained, over all checkpoints."""
    steps: dict[int, set[str]] = {}
    for version in checkpoints.store.versions(POLICY):
        for turn, step in checkpoints.state(version).trained.items():
            steps.setdefault(step, set()).add(turn)
    return steps
