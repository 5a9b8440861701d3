"""Replicas together: staged before any is touched, changed in waves, announced by themselves, told to the proxy."""

import pytest

from drivetrain.common.events import ReplicaSeen
from drivetrain.common.store.checkpoints import CheckpointStore
from drivetrain.weights.fleet import Fleet
from drivetrain.weights.service import WeightsService
from tests.weights_stage import FakeEngine, Stage, Write


@pytest.mark.parametrize(("unavailable", "waves"), [(1, "a b c d"), (2, "a bc d"), (9, "a bcd")])
async def test_full_weights_change_in_waves_of_which_the_first_is_one(
    store: CheckpointStore, write: Write, unavailable: int, waves: str
) -> None:
    stage = Stage(store, write, "abcd")
    stage.max_unavailable = unavailable
    stage.service = stage.make()
    await stage.start()
    await stage.announce(1, 0)
    waves_of = stage.service.fleet.waves(await stage.source.target(1))
    assert " ".join(["".join(replica.name for replica, _ in wave) async for wave in waves_of]) == waves


async def test_every_replica_has_read_a_version_before_the_first_one_loads_it(stage: Stage) -> None:
    seen: list[list[int]] = []
    stage.engines[0].on_load = lambda weights: seen.append([len(engine.staged) for engine in stage.engines])
    await stage.announce(1, 0)
    assert seen == [[1, 1]]


async def test_a_version_that_one_replica_refuses_to_stage_touches_no_replica(stage: Stage) -> None:
    stage.engines[1].refuses_staging = "tensor model.norm.weight has 3 values that are NaN or infinite"
    await stage.announce(1, 0)
    assert await stage.held() == {1: "tensor model.norm.weight has 3 values that are NaN or infinite"}
    assert [engine.loads for engine in stage.engines] == [[], []]


async def test_a_replica_that_serves_a_version_wrongly_is_out_of_rotation_until_it_is_right_again(stage: Stage) -> None:
    await stage.announce(1, 0)
    stage.engines[0].off_by = 0.5
    await stage.announce(2, 1)
    first, second = (await stage.rotation()).posts
    assert "0.25 nats" in first.out
    assert (first.label, second.label, second.out) == (None, 1, "")
    stage.engines[0].off_by = 0.0
    stage.time += 60.0
    await stage.service.reconcile()
    first, _ = (await stage.rotation()).posts
    assert (first.label, first.out) == (1, "")


async def test_a_replica_that_dies_in_mid_load_leaves_the_rest_of_the_fleet_to_the_version(stage: Stage) -> None:
    def die(weights: object) -> None:
        stage.engines[0].away = True

    stage.engines[0].on_load = die
    await stage.announce(1, 0)
    assert [event.replicas for event in await stage.promoted()] == [["b"]]
    first, second = (await stage.rotation()).posts
    assert "cannot be reached" in first.out
    assert (second.label, second.out) == (1, "")


def announced(stage: Stage, engines: dict[str, FakeEngine]) -> WeightsService:
    """A service that knows no replica but those that announce themselves."""
    fleet = Fleet(stage.bus, "main", [], lambda: stage.time, make=lambda url, name: stage.replica(engines[name]))
    return WeightsService(stage.bus, stage.source, fleet, 2.0, lambda: 50.0, stage.sleep)


async def say(stage: Stage, engine: FakeEngine, *policies: str) -> None:
    seen = ReplicaSeen(
        name=engine.name, url=engine.url, policies=list(policies), version=engine.version, load=0, at=stage.time
    )
    await stage.bus.publish(seen)


async def test_a_replica_that_announces_itself_is_brought_up_to_date_and_joins(stage: Stage) -> None:
    await stage.announce(1, 0)
    late, other = FakeEngine("late"), FakeEngine("other")
    stage.service = announced(stage, {"late": late, "other": other})
    await say(stage, late, "main", "second")
    await say(stage, other, "second")
    await stage.start()
    assert (late.loads, other.loads) == ([1], [])
    assert [(post.url, post.label) for post in (await stage.rotation()).posts] == [("http://late", 1)]


async def test_a_replica_that_falls_silent_leaves_and_may_come_back(stage: Stage) -> None:
    late = FakeEngine("late")
    stage.service = announced(stage, {"late": late})
    await say(stage, late, "main")
    await stage.start()
    assert stage.service.serving
    stage.time += 16.0
    await stage.service.reconcile()
    assert not stage.service.serving
    assert (await stage.rotation()).posts == []
    await say(stage, late, "main")
    await stage.service.reconcile()
    assert stage.service.serving


async def test_the_rotation_is_said_again_every_few_seconds_and_at_once_when_it_changes(stage: Stage) -> None:
    first = (await stage.rotation()).at
    stage.time += 2.0
    await stage.service.reconcile()
    assert (await stage.rotation()).at == first
    stage.time += 4.0
    await stage.service.reconcile()
    assert (await stage.rotation()).at == first + 6.0
    await stage.announce(1, 0)
    assert (await stage.rotation()).version == 1
