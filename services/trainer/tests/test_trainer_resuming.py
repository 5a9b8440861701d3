"""Trainer state that is stored every few steps only: what a hold or a lost batch then leads back to."""

from pathlib import Path
from typing import Any

import pytest
import torch

from drivetrain.trainer.batches.batches import Unit, unit_of
from drivetrain.trainer.batches.collecting import Turns
from drivetrain.trainer.samples.samples import Sample
from services.trainer.tests.test_trainer_service import World, until

FLAGS = ("--batch.size", "1", "--max_ahead", "9", "--keep", "1")


@pytest.fixture
def world(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    for poll in ("drivetrain.trainer.batches.intake.POLL_S", "drivetrain.common.bus.handling.POLL_S"):
        monkeypatch.setattr(poll, 0.02)
    return World(model_folder, tmp_path / "store", Silent())  # type: ignore[arg-type]


class Silent:
    """Meters that say nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


async def trained(world: World, trainer: Any, turns: str) -> None:
    """One step for each turn."""
    for turn in turns:
        before = trainer.loaded
        await world.say(turn, version=before)
        await until(lambda: trainer.loaded == before + 1, f"{turn} is trained")  # noqa: B023


async def test_a_hold_leads_back_to_what_serves_by_redoing_its_steps(world: World) -> None:
    async with world.trainer(*FLAGS, "--state_every", "5") as trainer:
        await trained(world, trainer, "ab")
        await world.promote(2)
        await until(lambda: trainer.lineage.promoted == 2, "promoted")
        served = [p.clone() for p in trainer._studio.model.parameters]
        await trained(world, trainer, "c")
        await world.hold(3)
        await until(lambda: trainer.loaded == 4, "redone as a version of its own")
        assert all(torch.equal(a, b) for a, b in zip(served, trainer._studio.model.parameters, strict=True))
        assert {float(s["step"]) for s in trainer._studio.learner.optimizer.state.values()} == {2.0}
        redone = trainer.lineage.versions[4]
        assert (redone.parent, redone.step, redone.fate) == (2, 2, "candidate")
        assert trainer._staleness(sample(2)) == 0
        await trained(world, trainer, "d")
        assert trainer.lineage.versions[5].parent == 4


async def test_what_was_redone_and_held_is_not_redone_for_ever(world: World) -> None:
    async with world.trainer(*FLAGS, "--state_every", "5") as trainer:
        await trained(world, trainer, "a")
        await world.promote(1)
        await until(lambda: trainer.lineage.promoted == 1, "promoted")
        await trained(world, trainer, "b")
        await world.hold(2)
        await until(lambda: trainer.loaded == 3, "redone")
        await world.hold(3)
        await until(lambda: trainer.loaded == 1, "taken as it is served")
        await world.say("c", version=1)
        await until(lambda: trainer.loaded == 4, "training goes on from it")
        assert trainer.lineage.versions[4].parent == 1


async def test_steps_whose_batch_is_lost_leave_the_weights_that_serve(world: World) -> None:
    async with world.trainer(*FLAGS, "--state_every", "5") as trainer:
        await trained(world, trainer, "ab")
        served = [p.clone() for p in trainer._studio.model.parameters]
    world.bus.streams["SCORES"][1].subject = "turn.scored.expired"
    async with world.trainer(*FLAGS, "--state_every", "5") as trainer:
        assert trainer.loaded == 2
        assert all(torch.equal(a, b) for a, b in zip(served, trainer._studio.model.parameters, strict=True))
        assert world.candidates() == [1, 2]


async def test_checkpoints_stay_as_long_as_something_is_redone_from_them(world: World) -> None:
    async with world.trainer(*FLAGS, "--state_every", "3") as trainer:
        await trained(world, trainer, "abcde")
        await world.promote(4)
        await until(lambda: trainer.lineage.promoted == 4, "promoted")
        await trained(world, trainer, "f")
        # 3 and 6 hold all; 4 serves, and would be redone from 3
        await until(lambda: trainer._checkpoints.store.versions("demo") == [3, 4, 5, 6], "only what is needed stays")
        assert [trainer._checkpoints.resumable(version) for version in (3, 4, 5, 6)] == [True, False, False, True]


def sample(version: int) -> Sample:
    return Sample("s", "a", 1, (1,), (2,), (-1.0,), (version,), 1.0, 1.0)


async def test_a_turn_read_while_others_are_collected_is_not_lost() -> None:
    class Slow(Turns):
        """Somebody asks what is ready while the turn is read from the bus."""

        async def rebuild(self, events: Any) -> Unit:
            self.ready(0.0)
            return unit_of(sample(0))

    collector = Slow(None)  # type: ignore[arg-type]
    await collector.take_in(None, 1, 0.0)  # type: ignore[arg-type]
    assert [unit.key for unit in collector.ready(0.0)[0]] == ["s/a"]
