"""Replicas that restart, fail or are left half-way are brought to the promoted version."""

from tests.weights_stage import Stage


async def test_fresh_replicas_are_labelled_0_without_a_load(stage: Stage) -> None:
    assert [engine.version for engine in stage.engines] == [0, 0]
    assert [engine.loads for engine in stage.engines] == [[], []]
    assert stage.service.serving


async def test_a_replica_that_is_away_is_retried_and_then_left_out(stage: Stage) -> None:
    stage.engines[0].away = True
    await stage.announce(1, 0)
    assert stage.slept == [1.0, 2.0]
    assert [event.replicas for event in await stage.promoted()] == [["b"]]
    assert [replica.up for replica in stage.replicas] == [False, True]


async def test_a_replica_that_comes_back_is_brought_up_to_date(stage: Stage) -> None:
    stage.engines[0].away = True
    await stage.announce(1, 0)
    await stage.service.reconcile()
    assert not stage.replicas[0].up
    stage.engines[0].restart()
    await stage.service.reconcile()
    assert stage.engines[0].version == 1
    assert stage.replicas[0].up
    assert (1, "a") in await stage.loaded()


async def test_a_replica_left_paused_in_a_load_is_loaded_anew(stage: Stage) -> None:
    await stage.announce(1, 0)
    stage.engines[0].paused = True
    await stage.service.reconcile()
    assert stage.engines[0].loads == [1, 1]
    assert not stage.engines[0].paused


async def test_failed_attempts_to_bring_a_replica_up_to_date_get_rarer(stage: Stage) -> None:
    await stage.announce(1, 0)
    stage.engines[0].restart()
    stage.engines[0].off_by = 1.0
    for _ in range(20):
        await stage.service.reconcile()
        stage.time += 1.0
    # Tries after 0, 1, 3, 7 and 15 seconds
    assert stage.engines[0].loads == [1] + [1] * 5
    assert not stage.replicas[0].up


async def test_a_checkpoint_damaged_after_its_promotion_leaves_the_replica_down_with_the_others_serving(
    stage: Stage,
) -> None:
    await stage.announce(1, 0)
    stage.engines[0].restart()
    (stage.source.store.path("main", 1) / "model.safetensors").write_bytes(b"gone bad")
    await stage.service.reconcile()
    assert [replica.up for replica in stage.replicas] == [False, True]
    assert stage.engines[0].version is None
    assert stage.service.serving


async def test_a_restarted_service_does_not_believe_a_label_without_a_probe(stage: Stage) -> None:
    await stage.announce(1, 0)
    stage.engines[0].off_by = 0.5
    stage.service = stage.make()
    await stage.start()
    assert [replica.up for replica in stage.replicas] == [False, True]
    assert [engine.loads for engine in stage.engines] == [[1, 1], [1]]
