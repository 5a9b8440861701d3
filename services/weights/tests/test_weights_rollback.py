"""Going back: an earlier version serves again, and what was promoted after it is withdrawn."""

import asyncio
import shutil

import pytest

from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.events import WeightsRolledback
from drivetrain.common.store.archive import Archive
from tests.weights_stage import Stage


async def test_a_rollback_serves_the_earlier_version_and_withdraws_the_newer_ones(stage: Stage) -> None:
    for version in (1, 2, 3):
        await stage.announce(version, version - 1)
    await stage.ask_back(1)
    # Newest first: cut off in between, what is published leads to a version that serves
    assert await stage.rolledback() == [(3, 1, "worse"), (2, 1, "worse")]
    assert [engine.version for engine in stage.engines] == [1, 1]
    assert stage.service.registry.promoted == 1


async def test_after_a_rollback_the_line_goes_on_from_there(stage: Stage) -> None:
    await stage.announce(1, 0)
    await stage.announce(2, 1)
    await stage.ask_back(1)
    await stage.announce(3, 2)
    assert "it was rolledback: worse" in (await stage.held())[3]
    await stage.announce(4, 1)
    assert stage.service.registry.promoted == 4
    await stage.ask_back(1, "r2")
    assert [engine.version for engine in stage.engines] == [1, 1]


async def test_a_rollback_to_the_base_model_loads_it(stage: Stage) -> None:
    await stage.announce(1, 0)
    await stage.ask_back(0)
    assert [engine.version for engine in stage.engines] == [0, 0]
    assert await stage.rolledback() == [(1, 0, "worse")]


async def test_after_a_restart_the_version_that_was_rolled_back_to_is_known(stage: Stage) -> None:
    await stage.announce(1, 0)
    await stage.announce(2, 1)
    await stage.ask_back(1)
    stage.service = stage.make()
    await stage.start()
    assert stage.service.registry.promoted == 1
    await stage.ask_back(0, "r2")
    assert (await stage.rolledback())[-1] == (1, 0, "worse")


async def test_a_rollback_cut_off_by_a_crash_is_taken_up_again(stage: Stage) -> None:
    for version in (1, 2, 3):
        await stage.announce(version, version - 1)
    # The process died after the first of two events: 3 is withdrawn, the request was not acknowledged
    await stage.bus.publish(WeightsRolledback(policy="main", version=3, to=1, reason="worse", at=50.0))
    stage.service = stage.make()
    await stage.start()
    assert [engine.version for engine in stage.engines] == [1, 1]
    await stage.ask_back(1)
    assert stage.service.registry.promoted == 1


async def test_a_rollback_while_no_replica_answers_is_decided_and_reached_later(stage: Stage) -> None:
    await stage.announce(1, 0)
    await stage.announce(2, 1)
    for engine in stage.engines:
        engine.away = True
    await stage.ask_back(1)
    assert await stage.rolledback() == [(2, 1, "worse")]
    for engine in stage.engines:
        engine.restart()
    await stage.service.reconcile()
    assert [engine.version for engine in stage.engines] == [1, 1]


@pytest.mark.parametrize("to", [3, 7])
async def test_a_rollback_to_what_never_served_is_refused_and_nothing_changes(stage: Stage, to: int) -> None:
    await stage.announce(1, 0)
    await stage.announce(2, 1)
    stage.engines[0].refuses = "no"
    await stage.announce(3, 2)
    stage.engines[0].refuses = ""
    with pytest.raises(Unprocessable, match=f"version {to} is no ancestor of version 2"):
        await stage.ask_back(to)
    assert await stage.rolledback() == []
    assert [engine.version for engine in stage.engines] == [2, 2]


async def test_a_rollback_to_a_collected_version_is_refused_and_what_serves_serves_on(stage: Stage) -> None:
    await stage.announce(1, 0)
    await stage.announce(2, 1)
    shutil.rmtree(stage.source.store.path("main", 1))
    with pytest.raises(Unprocessable, match="there is no checkpoint main@1"):
        await stage.ask_back(1)
    assert await stage.rolledback() == []
    assert [engine.loads for engine in stage.engines] == [[1, 2], [1, 2]]


async def test_a_rollback_reads_the_archive_for_what_the_trainer_removed(stage: Stage, archive: Archive) -> None:
    stage.source.archive = archive
    for version in (1, 2):
        await stage.announce(version, version - 1)
        folder = stage.source.store.path("main", version)
        await archive.add(stage.source.store.manifest("main", version), folder, 0.0)
    shutil.rmtree(stage.source.store.path("main", 1))
    await stage.ask_back(1)
    assert [engine.version for engine in stage.engines] == [1, 1]


async def test_a_candidate_that_waits_for_replicas_is_held_when_its_parent_is_withdrawn(stage: Stage) -> None:
    await stage.announce(1, 0)
    await stage.announce(2, 1)
    for engine in stage.engines:
        engine.away = True
    asked: list[asyncio.Task[None]] = []

    def go_back() -> None:
        if len(stage.slept) == 5:
            asked.append(asyncio.create_task(stage.ask_back(1)))

    stage.awaken = go_back
    await stage.announce(3, 2)
    await asyncio.gather(*asked)
    assert "version 3 was trained from 2 (it was rolledback: worse), but 1 is promoted" in (await stage.held())[3]
