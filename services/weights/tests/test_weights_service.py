"""What becomes of candidates: promoted or held, one by one, also after a restart."""

import shutil

import pytest

from drivetrain.common.bus.base import Consumer, Delivery
from drivetrain.common.errors import CannotStart
from drivetrain.common.store.archive import Archive
from drivetrain.common.store.blobs import Entry
from drivetrain.common.store.errors import Unavailable
from tests.stores import MemoryBlobs
from tests.weights_stage import Stage


async def test_a_good_candidate_is_loaded_everywhere_proved_and_promoted(stage: Stage) -> None:
    await stage.announce(1, 0)
    assert [engine.loads for engine in stage.engines] == [[1], [1]]
    assert await stage.loaded() == [(1, "a"), (1, "b")]
    assert [(event.version, event.replicas) for event in await stage.promoted()] == [(1, ["a", "b"])]
    assert await stage.held() == {}


async def test_a_chain_of_versions_is_promoted_one_by_one(stage: Stage) -> None:
    for version in (1, 2, 5):
        await stage.announce(version, stage.service.registry.promoted)
    assert [event.version for event in await stage.promoted()] == [1, 2, 5]
    assert stage.engines[1].loads == [1, 2, 5]


async def test_a_candidate_that_a_replica_refuses_is_held_with_its_reason(stage: Stage) -> None:
    await stage.announce(1, 0)
    stage.engines[1].refuses = "tensor model.norm.weight has 3 values that are NaN or infinite"
    await stage.announce(2, 1)
    assert await stage.held() == {2: "tensor model.norm.weight has 3 values that are NaN or infinite"}
    assert [event.version for event in await stage.promoted()] == [1]


async def test_replicas_that_had_loaded_a_held_version_go_back(stage: Stage) -> None:
    await stage.announce(1, 0)
    stage.engines[1].refuses = "no"
    await stage.announce(2, 1)
    stage.engines[1].refuses = ""
    assert stage.engines[0].loads == [1, 2, 1]
    assert [engine.version for engine in stage.engines] == [1, 1]


async def test_without_a_promoted_version_they_go_back_to_the_base(stage: Stage) -> None:
    stage.engines[0].off_by = 0.5
    await stage.announce(1, 0)
    stage.engines[0].off_by = 0.0
    assert stage.engines[0].loads == [1, 0]
    assert stage.engines[0].version == 0


async def test_a_probe_off_the_trainers_is_held_with_both_numbers(stage: Stage) -> None:
    stage.engines[0].off_by = 0.5
    await stage.announce(1, 0)
    reason = (await stage.held())[1]
    assert "0.25 nats" in reason
    assert "0.001" in reason
    assert stage.engines[1].loads == []


async def test_a_probe_that_is_not_a_number_is_held(stage: Stage) -> None:
    stage.engines[0].off_by = float("nan")
    await stage.announce(1, 0)
    assert 1 in await stage.held()


async def test_a_corrupt_checkpoint_reaches_no_replica(stage: Stage) -> None:
    await stage.announce(1, 0, digest="0" * 64)
    assert "not the one that was announced" in (await stage.held())[1]
    assert stage.engines[0].loads == []


async def test_the_child_of_a_held_version_is_held_too(stage: Stage) -> None:
    await stage.announce(1, 0, digest="0" * 64)
    await stage.announce(2, 1)
    assert "trained from 1" in (await stage.held())[2]


async def test_with_no_replica_up_the_candidate_waits_and_is_promoted_later(stage: Stage) -> None:
    for engine in stage.engines:
        engine.away = True

    def come_back() -> None:
        if len(stage.slept) > 7:
            stage.engines[1].restart()

    stage.awaken = come_back
    await stage.announce(1, 0)
    assert [event.replicas for event in await stage.promoted()] == [["b"]]
    assert await stage.held() == {}


async def test_after_a_restart_of_the_service_the_promoted_version_is_known(stage: Stage) -> None:
    await stage.announce(1, 0)
    await stage.announce(2, 1)
    stage.engines[1].restart()
    stage.service = stage.make()
    await stage.start()
    assert stage.service.registry.promoted == 2
    assert [engine.version for engine in stage.engines] == [2, 2]
    assert stage.engines[0].loads == [1, 2]
    await stage.announce(3, 2)
    assert (await stage.promoted())[-1].version == 3


async def test_a_candidate_delivered_again_after_its_decision_is_not_decided_again(stage: Stage) -> None:
    await stage.announce(1, 0)
    stage.service = stage.make()
    await stage.start()
    again = Consumer("WEIGHTS", "again", ("weights.candidate.main.>",))
    async with stage.bus.consume(again) as subscription:
        delivery: Delivery
        (delivery,) = await subscription.fetch(1, 0.5)
        await stage.service.on_candidate(delivery)
    assert stage.engines[0].loads == [1]
    assert len(await stage.promoted()) == 1


async def test_a_service_whose_version_only_an_unreachable_archive_has_does_not_start(
    stage: Stage, archive: Archive
) -> None:
    await stage.announce(1, 0)
    await stage.announce(2, 1)
    shutil.rmtree(stage.source.store.path("main", 2))
    archive.blobs = Away()
    stage.source.archive = archive
    stage.service = stage.make()
    with pytest.raises(CannotStart, match="version 2 serves and is not in the trainer's folder; the store is away"):
        await stage.start()
    # Replicas serve on with what they have
    assert [engine.version for engine in stage.engines] == [2, 2]


async def test_an_archive_that_is_away_matters_to_nobody_while_the_folder_has_what_serves(
    stage: Stage, archive: Archive
) -> None:
    archive.blobs = Away()
    stage.source.archive = archive
    await stage.announce(1, 0)
    stage.service = stage.make()
    await stage.start()
    assert stage.service.serving


class Away(MemoryBlobs):
    """A store that does not answer."""

    async def entries(self, prefix: str) -> list[Entry]:
        raise Unavailable("the store is away")
