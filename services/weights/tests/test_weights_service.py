"""The service on an in-memory bus, with replicas that behave as told."""

import asyncio
import shutil
from collections.abc import Callable, Sequence

import pytest

from drivetrain.common.bus.base import Consumer, Delivery
from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.bus.memory import MemoryBus
from drivetrain.common.errors import CannotStart
from drivetrain.common.events import (
    WeightsCandidate,
    WeightsHeld,
    WeightsLoaded,
    WeightsPromoted,
    WeightsRollback,
    WeightsRolledback,
)
from drivetrain.common.store.archive import Archive
from drivetrain.common.store.blobs import Entry
from drivetrain.common.store.checkpoints import CheckpointStore, Manifest
from drivetrain.common.store.errors import Unavailable
from drivetrain.weights.engines.base import EngineError, Refused, Serving, Weights
from drivetrain.weights.replica import Replica
from drivetrain.weights.service import WeightsService
from drivetrain.weights.settings import TimeoutSettings
from drivetrain.weights.source import Source
from tests.stores import MemoryBlobs

Write = Callable[..., Manifest]
LABEL_OF_A_FRESH_VLLM = None


class FakeEngine:
    """A replica in memory. The probe of version n has the logprobs [-1, -n], as the checkpoints of these tests say."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.version: int | None = LABEL_OF_A_FRESH_VLLM
        self.paused = False
        self.away = False
        self.refuses = ""
        self.off_by = 0.0
        self.loads: list[int] = []

    def restart(self) -> None:
        self.version, self.away, self.paused = LABEL_OF_A_FRESH_VLLM, False, False

    async def serving(self) -> Serving:
        self._answer()
        return Serving(self.version, self.paused)

    async def label(self, version: int) -> None:
        self._answer()
        self.version = version

    async def load(self, weights: Weights) -> None:
        self._answer()
        if self.refuses:
            raise Refused(self.refuses)
        self.version, self.paused = weights.version, False
        self.loads.append(weights.version)

    async def logprobs(self, token_ids: Sequence[int]) -> list[float]:
        self._answer()
        return [-1.0, -float(self.version or 0) - self.off_by]

    async def close(self) -> None:
        """Nothing is open."""

    def _answer(self) -> None:
        if self.away:
            raise EngineError(f"{self.name} cannot be reached")


class Stage:
    """A bus, a store, two replicas and the service over them."""

    def __init__(self, store: CheckpointStore, write: Write) -> None:
        self.bus = MemoryBus()
        self.write = write
        self.source = Source(store, "main")
        self.engines = [FakeEngine("a"), FakeEngine("b")]
        self.slept: list[float] = []
        self.awaken: Callable[[], None] = lambda: None
        self.time = 0.0
        self.service = self.make()

    def make(self) -> WeightsService:
        """The service, as after a start of its process."""
        times = TimeoutSettings(attempts=3, retry_s=1.0)
        self.replicas = [Replica(engine, 1e-3, times, self.sleep, lambda: self.time) for engine in self.engines]
        return WeightsService(self.bus, self.source, self.replicas, 2.0, lambda: 50.0, self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        self.awaken()
        await asyncio.sleep(0)

    async def start(self) -> None:
        await self.service.recover()
        await self.service.reconcile()

    async def announce(self, version: int, parent: int, digest: str | None = None) -> None:
        """Write a checkpoint, announce it and let the service decide."""
        manifest = self.write(version, parent)
        self.slept.clear()
        await self.bus.publish(
            WeightsCandidate(
                policy="main",
                version=version,
                parent=parent,
                digest=digest or manifest.digest(),
                step=version,
                at=1.0,
            )
        )
        await self.decide()

    async def decide(self) -> None:
        async with self.bus.consume(self.service.consumer) as subscription:
            (delivery,) = await subscription.fetch(1, 0.5)
            await self.service.on_candidate(delivery)
            await delivery.ack()

    async def ask_back(self, to: int, number: str = "r1") -> None:
        """Ask for a rollback and let the service act on it, as its loop does."""
        await self.bus.publish(WeightsRollback(policy="main", version=to, id=number, reason="worse", at=1.0))
        async with self.bus.consume(self.service.rollbacks) as subscription:
            (delivery,) = await subscription.fetch(1, 0.5)
            try:
                await self.service.on_rollback(delivery)
            finally:
                await delivery.ack()

    async def rolledback(self) -> list[tuple[int, int, str]]:
        found = [stored.event for stored in await self.bus.last("WEIGHTS", "weights.rolledback.main.*")]
        return [(event.version, event.to, event.reason) for event in found if isinstance(event, WeightsRolledback)]

    async def promoted(self) -> list[WeightsPromoted]:
        found = [stored.event for stored in await self.bus.last("WEIGHTS", "weights.promoted.main.*")]
        return [event for event in found if isinstance(event, WeightsPromoted)]

    async def held(self) -> dict[int, str]:
        found = [stored.event for stored in await self.bus.last("WEIGHTS", "weights.held.main.*")]
        return {event.version: event.reason for event in found if isinstance(event, WeightsHeld)}

    async def loaded(self) -> list[tuple[int, str]]:
        found = [stored.event for stored in await self.bus.last("WEIGHTS", "weights.loaded.main.>")]
        return [(event.version, event.replica) for event in found if isinstance(event, WeightsLoaded)]


@pytest.fixture
async def stage(store: CheckpointStore, write: Write) -> Stage:
    made = Stage(store, write)
    await made.start()
    return made


async def test_fresh_replicas_are_labelled_0_without_a_load(stage: Stage) -> None:
    assert [engine.version for engine in stage.engines] == [0, 0]
    assert [engine.loads for engine in stage.engines] == [[], []]
    assert stage.service.serving


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


async def test_a_checkpoint_damaged_after_its_promotion_leaves_the_replica_down_with_the_others_serving(
    stage: Stage,
) -> None:
    await stage.announce(1, 0)
    stage.engines[0].restart()
    (stage.source.store.path("main", 1) / "model.safetensors").write_bytes(b"gone bad")
    await stage.service.reconcile()
    assert [replica.up for replica in stage.replicas] == [False, True]
    assert stage.engines[0].version == 0
    assert stage.service.serving


async def test_a_restarted_service_does_not_believe_a_label_without_a_probe(stage: Stage) -> None:
    await stage.announce(1, 0)
    stage.engines[0].off_by = 0.5
    stage.service = stage.make()
    await stage.start()
    assert [replica.up for replica in stage.replicas] == [False, True]
    assert [engine.loads for engine in stage.engines] == [[1, 1], [1]]


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
