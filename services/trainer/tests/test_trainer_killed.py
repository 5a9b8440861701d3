"""SIGKILL at each point of a step, on a real NATS: every scored turn is trained once, and the loss goes on as if
nothing had happened."""

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from drivetrain.common.bus import Bus, connect
from drivetrain.common.events import Sampling, Span, TurnRecorded, TurnScored
from drivetrain.common.settings import BusSettings
from drivetrain.common.store import CheckpointStore, Manifest
from drivetrain.common.tokens import pack_ids, pack_logprobs
from drivetrain.trainer.checkpoints.checkpoints import Checkpoints
from tests.servers import wait_until

BATCH = 2
ACK_WAIT_S = 2.0
HANGS = {
    "drivetrain.trainer.learning.learner.Learner.step": "the plan is stored",
    "drivetrain.trainer.checkpoints.checkpoints.Checkpoints.save": "the step is done",
    "drivetrain.trainer.checkpoints.checkpoints.save_shards": "the checkpoint is half written",
    "drivetrain.trainer.checkpoints.publishing.Publisher.announce": "the checkpoint is stored",
    "drivetrain.trainer.batches.inbox.Inbox.finish": "the candidate is announced",
    "drivetrain.trainer.training.Trainer._wait": "the batch is acknowledged",
}
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["drivetrain.trainer.__main__", "torch", "transformers", "tests.servers"])


def run_trainer(hangs: str, reached: Any, log: Path, flags: list[str]) -> None:
    """A trainer's process, which stands still where `hangs` is called for the batch after its first steps."""
    from drivetrain.trainer import __main__ as program
    from drivetrain.trainer.batches import intake

    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    for name in [name for name in os.environ if name.startswith("DRIVETRAIN_")]:
        del os.environ[name]
    intake.ACK_WAIT_S = ACK_WAIT_S
    if hangs:
        stand_still(hangs, reached)
    sys.argv = ["drivetrain-trainer", *flags]
    program.main()


def stand_still(where: str, reached: Any) -> None:
    """Replace a function by one that says that it was called and never returns."""
    path, _, name = where.rpartition(".")
    patch = pytest.MonkeyPatch()

    def forever(*arguments: object) -> None:
        reached.set()
        time.sleep(600)

    patch.setattr(f"{path}.{name}", forever)


class Run:
    """One policy, trained by processes that are killed."""

    def __init__(self, policy: str, nats_url: str, model: Path, root: Path, state_every: int) -> None:
        self.policy, self.root = policy, root
        self.store = CheckpointStore(root / "store")
        self.checkpoints = Checkpoints(self.store, policy, str(model), torch.float32)
        settings = {
            "bus.url": nats_url, "policy": policy, "model": model, "store": self.store.root, "method": "binary",
            "batch.size": BATCH, "batch.min_size": BATCH, "max_ahead": 99, "keep": 99, "threads": 1,
            "state_every": state_every, "optimizer.learning_rate": 1e-3, "batch.max_staleness": 99,
        }  # fmt: skip
        self._flags = [part for name, value in settings.items() for part in (f"--{name}", str(value))]

    @contextmanager
    def trainer(self, hangs: str = "") -> Iterator[Callable[[], bool]]:
        """A trainer, killed when the block is left; gives whether it stands still."""
        reached = PROCESSES.Event()
        process = PROCESSES.Process(
            target=run_trainer, args=(hangs, reached, self.root / f"{self.policy}.log", self._flags)
        )
        process.start()
        try:
            yield reached.is_set
        finally:
            process.kill()
            process.join()

    def steps(self) -> list[Manifest]:
        """Every stored version."""
        return [self.store.manifest(self.policy, version) for version in self.store.versions(self.policy)]

    def losses(self) -> list[float]:
        """The loss of every step, in order."""
        return [manifest.metrics["loss"] for manifest in self.steps()]

    def weights(self) -> str:
        """The checksum of the last version's weights."""
        return self.steps()[-1].files[0].sha256

    async def say(self, bus: Bus, number: int) -> None:
        """Record and score the turns of a batch."""
        for place in range(BATCH):
            await say(bus, self.policy, f"t{number}-{place}", 40 + number)


async def say(bus: Bus, policy: str, turn: str, token: int) -> None:
    """Record a turn and score it."""
    await bus.publish(
        TurnRecorded(
            tenant="t", policy=policy, session="s", turn=turn, parent=None, prompt_ids=pack_ids([3, 4]),
            response_ids=pack_ids([token, 41]), logprobs=pack_logprobs([-3.0, -3.0]), versions=[Span(0, 2, 0)],
            sampling=Sampling(), finish="stop", exact=True, messages=[{"role": "user", "content": "x"}],
            reply={"role": "assistant", "content": "y"}, started_at=0.0, finished_at=1.0,
        )
    )  # fmt: skip
    scored = TurnScored(
        tenant="t", policy=policy, session="s", turn=turn, n=0, judge="rules", reward=1.0, votes=[], hints=[], at=2.0
    )
    await bus.publish(scored)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_trainer_killed_at_every_point_learns_what_one_left_alone_does(
    nats_url: str, model_folder: Path, tmp_path: Path
) -> None:
    bus = await connect(BusSettings(url=nats_url))
    alone = Run("alone", nats_url, model_folder, tmp_path, 1)
    killed = Run("killed", nats_url, model_folder, tmp_path, 1)
    with alone.trainer():
        for number in range(1, len(HANGS) + 1):
            await alone.say(bus, number)
            wait_until(lambda: len(alone.steps()) == number, 120, f"step {number}")  # noqa: B023
    for number, (hangs, point) in enumerate(HANGS.items(), start=1):
        await killed.say(bus, number)
        with killed.trainer(hangs) as reached:
            wait_until(reached, 120, point)
        # What the dead one held comes again, before what is said from now on: batches stay those of the one left alone
        await asyncio.sleep(1.5 * ACK_WAIT_S)
    with killed.trainer():
        wait_until(lambda: len(killed.steps()) == len(HANGS), 120, "all is trained")
    assert killed.losses() == alone.losses()
    assert killed.weights() == alone.weights()
    assert len(set(alone.losses())) == len(HANGS)
    await bus.close()


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_steps_whose_optimiser_was_not_stored_are_redone_under_a_new_number(
    nats_url: str, model_folder: Path, tmp_path: Path
) -> None:
    bus = await connect(BusSettings(url=nats_url))
    alone = Run("alone-3", nats_url, model_folder, tmp_path, 1)
    killed = Run("killed-3", nats_url, model_folder, tmp_path, 4)
    for run, before in ((alone, 2), (killed, 2)):
        with run.trainer():
            for number in range(1, before + 1):
                await run.say(bus, number)
                wait_until(lambda: len(run.steps()) == number, 120, f"step {number}")  # noqa: B023
            if run is alone:
                await run.say(bus, 3)
                wait_until(lambda: len(alone.steps()) == 3, 120, "the last step")
    await killed.say(bus, 3)
    with killed.trainer():
        wait_until(lambda: len(killed.steps()) == 4, 120, "two steps are redone and one is new")
    assert [(m.version, m.parent, m.step) for m in killed.steps()] == [(1, 0, 1), (2, 1, 2), (3, 2, 2), (4, 3, 3)]
    assert killed.weights() == alone.weights()
    assert [killed.checkpoints.resumable(version) for version in (1, 2, 3, 4)] == [False, False, True, False]
    await bus.close()
