"""Adapters: a name for each version, over the weights that they were trained over, unloaded when nobody uses them."""

from drivetrain.common.events import Post
from tests.weights_stage import Stage


async def test_an_adapter_is_loaded_beside_the_base_and_promoted(stage: Stage) -> None:
    await stage.adapter(1, 0)
    assert [(event.version, event.replicas) for event in await stage.promoted()] == [(1, ["a", "b"])]
    assert [(engine.version, engine.adapters) for engine in stage.engines] == [(0, {"main@1": 0})] * 2


async def test_the_proxy_is_told_where_the_new_adapter_is_with_the_promotion(stage: Stage) -> None:
    await stage.adapter(1, 0)
    rotation = await stage.rotation()
    assert rotation.version == 1
    assert rotation.posts == [Post(url=f"http://{name}", label=0, adapters=[1]) for name in "ab"]


async def test_the_old_adapter_stays_while_requests_use_it_and_goes_when_they_are_done(stage: Stage) -> None:
    await stage.adapter(1, 0)
    stage.engines[0].in_use = {"main@1"}
    await stage.adapter(2, 1)
    for _ in range(12):
        await stage.service.reconcile()
        stage.time += 1.0
    assert [set(engine.adapters) for engine in stage.engines] == [{"main@1", "main@2"}, {"main@2"}]
    stage.engines[0].in_use = set()
    for _ in range(12):
        await stage.service.reconcile()
        stage.time += 1.0
    assert set(stage.engines[0].adapters) == {"main@2"}


async def test_other_policies_adapters_are_left_alone(stage: Stage) -> None:
    stage.engines[0].adapters["other@1"] = 0
    await stage.adapter(1, 0)
    stage.time += 100.0
    for _ in range(3):
        await stage.service.reconcile()
        stage.time += 100.0
    assert set(stage.engines[0].adapters) == {"other@1", "main@1"}


async def test_an_adapter_with_a_wrong_probe_is_held_and_the_replicas_stay_in_rotation(stage: Stage) -> None:
    await stage.adapter(1, 0)
    stage.engines[0].off_by = 0.5
    await stage.adapter(2, 1)
    stage.engines[0].off_by = 0.0
    assert "0.25 nats" in (await stage.held())[2]
    assert [post.out for post in (await stage.rotation()).posts] == ["", ""]
    assert (await stage.rotation()).version == 1


async def test_an_adapter_goes_over_the_full_version_that_it_was_trained_over(stage: Stage) -> None:
    await stage.announce(1, 0)
    await stage.adapter(2, 1, over=1)
    assert [(engine.version, engine.adapters) for engine in stage.engines] == [(1, {"main@2": 1})] * 2
    assert [event.version for event in await stage.promoted()] == [1, 2]


async def test_before_full_weights_change_the_adapters_over_them_are_drained(stage: Stage) -> None:
    await stage.announce(1, 0)
    await stage.adapter(2, 1, over=1)
    stage.engines[0].in_use = {"main@2"}
    told: list[list[int]] = []

    def finish() -> None:
        stage.engines[0].in_use = set()

    stage.awaken = finish
    stage.engines[0].on_load = lambda weights: told.append(list(stage.engines[0].adapters.values()))
    await stage.announce(3, 2)
    assert stage.slept == [0.2] * 7  # one look that finds it used and three that do not; the other replica: three
    assert told == [[]]
    assert [(engine.version, engine.adapters) for engine in stage.engines] == [(3, {}), (3, {})]


async def test_a_restarted_replica_gets_the_promoted_adapter_before_it_is_in_rotation(stage: Stage) -> None:
    await stage.adapter(1, 0)
    stage.engines[1].restart()
    stage.engines[1].refuses = "not yet"
    await stage.service.reconcile()
    (_, post) = (await stage.rotation()).posts
    assert (post.adapters, post.out) == ([], "not yet")
    stage.engines[1].refuses = ""
    stage.time += 60.0
    await stage.service.reconcile()
    (_, post) = (await stage.rotation()).posts
    assert (post.adapters, post.out) == ([1], "")


async def test_after_a_restart_of_the_service_an_adapter_is_proved_anew_without_a_load(stage: Stage) -> None:
    await stage.adapter(1, 0)
    stage.service = stage.make()
    await stage.start()
    assert stage.service.serving
    assert [engine.loads for engine in stage.engines] == [[1], [1]]


async def test_a_rollback_from_an_adapter_serves_the_one_before(stage: Stage) -> None:
    await stage.adapter(1, 0)
    await stage.adapter(2, 1)
    await stage.ask_back(1)
    assert (await stage.rotation()).version == 1
    assert all("main@1" in engine.adapters for engine in stage.engines)


async def test_a_rollback_from_an_adapter_to_the_base_model_loads_nothing(stage: Stage) -> None:
    await stage.adapter(1, 0)
    await stage.ask_back(0)
    rotation = await stage.rotation()
    assert (rotation.version, [post.label for post in rotation.posts]) == (0, [0, 0])
    assert [engine.loads for engine in stage.engines] == [[1], [1]]
