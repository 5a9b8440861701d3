"""The service on the in-memory bus with a tiny real model: train, announce, acknowledge; crash, hold, pause, resume."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from prometheus_client import REGISTRY

from drivetrain.common.bus import BusError, MemoryBus
from drivetrain.common.events import (
    Sampling,
    Span,
    TurnRecorded,
    TurnScored,
    WeightsCandidate,
    WeightsHeld,
    WeightsPromoted,
    WeightsRolledback,
)
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.settings import resolve
from drivetrain.common.store import CheckpointStore
from drivetrain.common.tokens import pack_ids, pack_logprobs
from drivetrain.trainer.app import build_model, serve
from drivetrain.trainer.batches.intake import scores_consumer
from drivetrain.trainer.checkpoints.plan import Entry, Plan
from drivetrain.trainer.learning.learner import Learner, Step
from drivetrain.trainer.model.policy import load_tokenizer
from drivetrain.trainer.samples.samples import Sample
from drivetrain.trainer.settings.settings import TrainerSettings
from drivetrain.trainer.telemetry import Meters
from drivetrain.trainer.training import Trainer

TURN = TurnRecorded(
    tenant="t", policy="demo", session="s", turn="a", parent=None, prompt_ids=b"", response_ids=pack_ids([40, 41, 42]),
    logprobs=pack_logprobs([-3.0, -3.0, -3.0]), versions=[Span(0, 3, 0)], sampling=Sampling(), finish="stop",
    exact=True, messages=[{"role": "user", "content": "what is ice?"}], reply={"role": "assistant", "content": "x"},
    started_at=0.0, finished_at=1.0,
)  # fmt: skip
SCORE = TurnScored(
    tenant="t", policy="demo", session="s", turn="a", n=0, judge="rules", reward=1.0, votes=[], hints=[], at=2.0
)


@pytest.fixture(scope="module")
def meters() -> Meters:
    return Meters()


def dropped(reason: str) -> float:
    return REGISTRY.get_sample_value("drivetrain_trainer_dropped_turns_total", {"reason": reason}) or 0.0


class World:
    """A bus and a store that outlive the trainers started on them."""

    def __init__(self, folder: Path, store: Path, meters: Meters) -> None:
        self.bus = MemoryBus()
        self.folder = folder
        self.store = store
        self.meters = meters
        self.tokenizer = load_tokenizer(str(folder))

    def settings(self, *flags: str) -> TrainerSettings:
        needed = ["--policy", "demo", "--model", str(self.folder), "--store", str(self.store)]
        small = ["--batch.size", "2", "--batch.min_size", "1", "--batch.max_wait_s", "600"]
        return resolve(TrainerSettings, "trainer", [*needed, *small, *flags], environ={})

    @asynccontextmanager
    async def trainer(self, *flags: str) -> AsyncIterator[Trainer]:
        """A running trainer, stopped like by SIGTERM at the end."""
        settings = self.settings(*flags)
        async with asyncio.TaskGroup() as group:
            lifecycle = Lifecycle(group)
            model = build_model(settings)
            trainer = await serve(lifecycle, settings, self.bus, self.tokenizer, model, self.meters)
            try:
                yield trainer
            finally:
                lifecycle.stop()
                await lifecycle.drain()
                await lifecycle.stack.aclose()

    async def say(self, turn: str, reward: float | None = 1.0, version: int = 0, **changes: Any) -> None:
        """Record a turn and score it."""
        ids = self.tokenizer.apply_chat_template(TURN.messages, add_generation_prompt=True, return_dict=False)
        recorded = msgspec.structs.replace(
            TURN, turn=turn, prompt_ids=pack_ids(ids), versions=[Span(0, 3, version)], **changes.pop("recorded", {})
        )
        await self.bus.publish(recorded)
        await self.bus.publish(msgspec.structs.replace(SCORE, turn=turn, reward=reward, **changes))

    def candidates(self) -> list[int]:
        records = self.bus.streams["WEIGHTS"]
        return [int(r.subject.split(".")[-1]) for r in records if r.subject.startswith("weights.candidate.demo")]

    def open_scores(self) -> set[int]:
        """Sequence numbers of scores that are not acknowledged."""
        state = self.bus._states.get(("SCORES", "trainer-demo-rules-scores"))
        return set(range(1, len(self.bus.streams["SCORES"]) + 1)) - (state.done if state else set())

    async def promote(self, version: int) -> None:
        await self.bus.publish(WeightsPromoted(policy="demo", version=version, at=0.0, replicas=["r"]))

    async def hold(self, version: int) -> None:
        await self.bus.publish(WeightsHeld(policy="demo", version=version, at=0.0, reason="drifted"))


@pytest.fixture
def world(model_folder: Path, tmp_path: Path, meters: Meters, monkeypatch: pytest.MonkeyPatch) -> World:
    for poll in ("drivetrain.trainer.batches.intake.POLL_S", "drivetrain.common.bus.handling.POLL_S"):
        monkeypatch.setattr(poll, 0.02)
    return World(model_folder, tmp_path / "store", meters)


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a state that some event of the running trainer brings about."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"never came: {what}")


async def test_a_full_batch_becomes_a_candidate_and_is_acknowledged(world: World) -> None:
    async with world.trainer():
        await world.say("a", 1.0)
        await world.say("b", -1.0, hints=["please answer in one sentence"])
        await until(lambda: not world.open_scores(), "all scores acknowledged")
        assert world.candidates() == [1]
        manifest = CheckpointStore(world.store).manifest("demo", 1)
        candidate = (await world.bus.last("WEIGHTS", "weights.candidate.demo.*"))[0].event
        assert isinstance(candidate, WeightsCandidate)
        assert (candidate.parent, candidate.step, candidate.digest) == (0, 1, manifest.digest())
        assert candidate.metrics["teacher_share"] == 0.5
        assert len(manifest.probe.token_ids) == len(manifest.probe.logprobs) + 1 >= 8


async def test_a_batch_waits_for_its_size(world: World) -> None:
    async with world.trainer() as trainer:
        await world.say("a")
        await until(lambda: len(trainer._inbox) == 1, "the turn waits")
        assert world.candidates() == []
        assert world.open_scores() == {1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"reward": None}, "unresolved"),
        ({"reward": 0.0}, "no_signal"),
        ({"trainable": False}, "not_trainable"),
        ({"recorded": {"exact": False}}, "inexact"),
        ({"recorded": {"consent": "record"}}, "no_consent"),
        ({"recorded": {"kind": "side"}}, "side"),
        ({"recorded": {"masked": "email"}}, "masked"),
        ({"recorded": {"response_ids": pack_ids([40, 999999, 42])}}, "malformed"),
        ({"recorded": {"response_ids": pack_ids([40, -1, 42])}}, "malformed"),
        ({"version": 77}, "rejected"),
    ],
)
async def test_what_is_not_trained_is_acknowledged_and_counted(
    world: World, changes: dict[str, Any], reason: str
) -> None:
    before = dropped(reason)
    async with world.trainer():
        await world.say("a", **changes)
        await until(lambda: dropped(reason) == before + 1, f"counted as {reason}")
        await until(lambda: not world.open_scores(), "acknowledged")


async def test_one_judges_scores_are_trained_and_another_can_be_chosen_later(world: World) -> None:
    before = dropped("other_judge")
    async with world.trainer("--batch.size", "1"):
        await world.say("a", judge="again")
        await world.say("b", judge="again")
        await world.bus.publish(msgspec.structs.replace(SCORE, turn="b", reward=-1.0))
        await until(lambda: world.candidates() == [1], "the live judge's score is trained")
        await until(lambda: dropped("other_judge") == before + 2, "the others are counted")
        await until(lambda: not world.open_scores(), "all are acknowledged")
    late = dropped("late")
    await world.promote(1)
    async with world.trainer("--batch.size", "1", "--judge", "again"):
        await until(lambda: world.candidates() == [1, 2], "the other judge's score of another turn is trained")
        await until(lambda: dropped("late") == late + 1, "what one judge's score trained no other's does")


async def test_a_turn_without_vote_trains_by_its_hint(world: World) -> None:
    async with world.trainer("--batch.size", "1"):
        await world.say("a", 0.0, hints=["please answer in one sentence"])
        await until(lambda: world.candidates() == [1], "a candidate")


async def test_a_hint_without_a_place_is_counted_and_the_vote_trains_alone(world: World) -> None:
    async with world.trainer("--batch.size", "1"):
        await world.say("a", -1.0, hints=["please answer in one sentence"], recorded={"messages": []})
        await until(lambda: world.candidates() == [1], "a candidate")
    value = REGISTRY.get_sample_value("drivetrain_trainer_no_teacher_total", {"reason": "no_message"})
    assert value is not None
    assert value >= 1


async def test_a_conversation_is_read_along_its_parents(world: World) -> None:
    async with world.trainer("--batch.size", "1") as trainer:
        await world.bus.publish(msgspec.structs.replace(TURN, turn="root", prompt_ids=pack_ids([3])))
        await world.say("a", recorded={"parent": "root"})
        await until(lambda: world.candidates() == [1], "a candidate")
        assert trainer.loaded == 1


async def test_a_turn_whose_parent_expired_is_dropped_after_bounded_retries(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def quick(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("drivetrain.trainer.samples.scores.asyncio", type("A", (), {"sleep": staticmethod(quick)}))
    before = dropped("missing")
    async with world.trainer():
        await world.say("a", recorded={"parent": "gone"})
        await until(lambda: dropped("missing") == before + 1, "counted")
    assert len(waits) == 4


async def test_a_redelivery_after_a_crash_before_the_ack_is_not_trained_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies between storing the checkpoint and acknowledging its batch."""

    async def crash(self: object, batch: object) -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr("drivetrain.trainer.batches.inbox.Inbox.finish", crash)
        patch.setattr("drivetrain.common.lifecycle.DRAIN_S", 0.05)
        async with world.trainer():
            await world.say("a")
            await world.say("b")
            await until(lambda: world.candidates() == [1], "announced")
    assert world.open_scores() == {1, 2}
    expire_deliveries(world)
    before = dropped("redelivered")
    async with world.trainer() as trainer:
        await until(lambda: not world.open_scores(), "acknowledged")
        assert trainer.loaded == 1
    assert dropped("redelivered") == before + 2
    assert world.candidates() == [1]


async def run_until_it_ends(world: World) -> None:
    async with world.trainer():
        await asyncio.Event().wait()


def expire_deliveries(world: World) -> None:
    """As if `ack_wait` had passed on the server."""
    for state in world.bus._states.values():
        state.unacked = dict.fromkeys(state.unacked, 0.0)


async def test_a_crash_before_the_checkpoint_trains_the_batch_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*arguments: object) -> None:
        raise KeyError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr("drivetrain.trainer.checkpoints.checkpoints.Checkpoints.save", crash)
        await world.say("a")
        await world.say("b")
        with pytest.raises(ExceptionGroup):
            await run_until_it_ends(world)
    expire_deliveries(world)
    async with world.trainer():
        await until(lambda: not world.open_scores(), "trained and acknowledged")
    assert world.candidates() == [1]


async def test_a_candidate_stored_but_not_announced_is_announced_at_the_next_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(event: object, headers: object = None) -> None:
        raise BusError("the stream is full")

    publish = world.bus.publish
    async with world.trainer() as trainer:
        await world.say("a")
        await world.say("b")
        monkeypatch.setattr(world.bus, "publish", away)
        await until(lambda: trainer.loaded == 1, "stored")
        assert world.candidates() == []
    monkeypatch.setattr(world.bus, "publish", publish)
    async with world.trainer() as trainer:
        assert world.candidates() == [1]
        assert trainer.loaded == 1
        await until(lambda: not world.open_scores(), "acknowledged without a second training")
    assert world.candidates() == [1]


async def test_training_pauses_while_too_many_candidates_await_promotion(world: World) -> None:
    async with world.trainer("--batch.size", "1", "--max_ahead", "1") as trainer:
        for turn in "abcd":
            await world.say(turn)
        await until(lambda: trainer.paused and len(trainer._inbox) == 2, "paused with two turns waiting")
        assert world.candidates() == [1, 2]
        await world.promote(1)
        await until(lambda: world.candidates() == [1, 2, 3], "one more")
        assert trainer.lineage.promoted == 1


async def test_a_held_candidate_is_forgotten_and_numbers_go_on(world: World) -> None:
    async with world.trainer("--batch.size", "1") as trainer:
        base = [p.clone() for p in trainer._studio.model.parameters]
        await world.say("a")
        await until(lambda: trainer.loaded == 1, "trained")
        await world.hold(1)
        await until(lambda: trainer.loaded == 0, "back at the base")
        assert all(torch.equal(a, b) for a, b in zip(base, trainer._studio.model.parameters, strict=True))
        assert not trainer._studio.learner.optimizer.state
        await world.say("b")
        await until(lambda: world.candidates() == [1, 2], "the next number")
        manifest = CheckpointStore(world.store).manifest("demo", 2)
        assert (manifest.parent, manifest.step) == (0, 1)


async def test_a_hold_returns_to_the_promoted_weights_and_optimiser(world: World) -> None:
    async with world.trainer("--batch.size", "1") as trainer:
        await world.say("a")
        await until(lambda: trainer.loaded == 1, "trained")
        await world.promote(1)
        await until(lambda: trainer.lineage.promoted == 1, "promoted")
        promoted = [p.clone() for p in trainer._studio.model.parameters]
        await world.say("b")
        await until(lambda: trainer.loaded == 2, "trained again")
        await world.hold(2)
        await until(lambda: trainer.loaded == 1, "back")
        assert all(torch.equal(a, b) for a, b in zip(promoted, trainer._studio.model.parameters, strict=True))
        steps = {float(s["step"]) for s in trainer._studio.learner.optimizer.state.values()}
        assert steps == {1.0}


async def test_a_rollback_withdraws_a_promoted_version(world: World) -> None:
    async with world.trainer("--batch.size", "1") as trainer:
        await world.say("a")
        await until(lambda: trainer.loaded == 1, "trained")
        await world.promote(1)
        await world.bus.publish(WeightsRolledback(policy="demo", version=1, at=0.0, to=0, reason="worse"))
        await until(lambda: trainer.loaded == 0, "back at the base")


async def test_what_was_held_stays_held_after_a_restart(world: World) -> None:
    async with world.trainer("--batch.size", "1") as trainer:
        await world.say("a")
        await until(lambda: trainer.loaded == 1, "trained")
        await world.hold(1)
        await until(lambda: trainer.loaded == 0, "back")
    async with world.trainer("--batch.size", "1") as trainer:
        assert trainer.lineage.head == 0
        assert trainer.lineage.next_version == 2


async def test_a_number_announced_from_a_lost_store_is_not_used_again(world: World) -> None:
    await world.bus.publish(WeightsCandidate(policy="demo", version=5, at=0.0, parent=4, digest="x", step=5))
    async with world.trainer("--batch.size", "1"):
        await world.say("a")
        await until(lambda: world.candidates() == [5, 6], "the number after it")


async def test_stale_turns_are_dropped_and_counted(world: World) -> None:
    before = dropped("stale")
    async with world.trainer("--batch.size", "1", "--batch.max_staleness", "0") as trainer:
        await world.say("a")
        await until(lambda: trainer.loaded == 1, "trained")
        await world.say("b", version=0)
        await until(lambda: dropped("stale") == before + 1, "dropped")
        await world.say("c", version=1)
        await until(lambda: trainer.loaded == 2, "a fresh one trains")


async def test_a_second_score_of_a_trained_turn_is_not_trained(world: World) -> None:
    before = dropped("late")
    async with world.trainer("--batch.size", "1") as trainer:
        await world.say("a")
        await until(lambda: trainer.loaded == 1, "trained")
        await world.bus.publish(msgspec.structs.replace(SCORE, n=1, reward=-1.0))
        await until(lambda: dropped("late") == before + 1, "dropped")


async def test_a_full_disk_is_waited_for_and_nothing_is_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivetrain.trainer.checkpoints.publishing.RETRY_S", 0.02)
    full = asyncio.Event()
    usage = type("Usage", (), {"free": 10})

    def measure(path: object) -> object:
        full.set()
        return usage

    async with world.trainer("--batch.size", "1"):
        with monkeypatch.context() as patch:
            patch.setattr("shutil.disk_usage", measure)
            await world.say("a")
            await full.wait()
            assert world.candidates() == []
            assert world.open_scores() == {1}
        await until(lambda: world.candidates() == [1], "stored once there is room")
        await until(lambda: not world.open_scores(), "acknowledged")


async def test_old_checkpoints_go_but_never_the_promoted_one(world: World) -> None:
    store = CheckpointStore(world.store)
    async with world.trainer("--batch.size", "1", "--keep", "2", "--max_ahead", "9") as trainer:
        for number, turn in enumerate("abcde", start=1):
            await world.say(turn, version=number - 1)
            await until(lambda: trainer.loaded == number, "trained")  # noqa: B023
            if number == 1:
                await world.promote(1)
                await until(lambda: trainer.lineage.promoted == 1, "promoted")
        await world.promote(4)
        await until(lambda: trainer.lineage.promoted == 4, "promoted")
        await world.say("f", version=5)
        await until(lambda: store.versions("demo") == [4, 5, 6], "only what is needed")


async def test_a_batch_that_is_not_finite_is_skipped_and_training_goes_on(world: World) -> None:
    before = dropped("non_finite")
    async with world.trainer("--batch.size", "1") as trainer:
        await world.say("a", float("inf"))
        await until(lambda: dropped("non_finite") == before + 1, "skipped")
        assert trainer.loaded == 0
        await world.say("b")
        await until(lambda: trainer.loaded == 1, "trained")


def test_the_consumer_leaves_room_for_four_batches(world: World) -> None:
    assert scores_consumer(world.settings("--batch.size", "100")).max_ack_pending == 400


async def test_a_batch_that_a_crash_cut_off_is_trained_first_and_in_its_order(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process redoes the planned batch without waiting for its scores to be delivered again."""
    trained: list[list[str]] = []
    step = Learner.step

    def crash(self: Learner, batch: Sequence[Sample], *arguments: Any) -> Step:
        trained.append([sample.key for sample in batch])
        raise KeyError("a bug")

    def observed(self: Learner, batch: Sequence[Sample], *arguments: Any) -> Step:
        trained.append([sample.key for sample in batch])
        return step(self, batch, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "step", crash)
        for turn in "abc":
            await world.say(turn)
        with pytest.raises(ExceptionGroup):
            await run_until_it_ends(world)
    monkeypatch.setattr(Learner, "step", observed)
    async with world.trainer():
        await until(lambda: world.candidates() == [1], "trained without a redelivery")
        expire_deliveries(world)
        await until(lambda: world.open_scores() == {3}, "acknowledged once they are delivered again")
    assert trained == [["s/a", "s/b"], ["s/a", "s/b"]]


async def test_a_planned_batch_is_not_redone_once_its_checkpoint_is_stored(world: World) -> None:
    async with world.trainer():
        await world.say("a")
        await world.say("b")
        await until(lambda: world.candidates() == [1], "trained")
    async with world.trainer() as trainer:
        assert trainer._planned == []
        await until(lambda: not world.open_scores(), "acknowledged")
    assert world.candidates() == [1]


async def test_a_planned_batch_whose_scores_expired_is_given_up(world: World) -> None:
    async with world.trainer() as trainer:
        plan = Plan(0, "rules", [[Entry(99, "turn.scored.0.demo.s.gone.rules.0")]])
        assert await trainer._inbox.again(plan) == []


async def test_a_waiting_score_that_is_delivered_again_is_trained_once(world: World) -> None:
    async with world.trainer() as trainer:
        await world.say("a")
        await until(lambda: len(trainer._inbox) == 1, "it waits")
        expire_deliveries(world)
        await world.say("b")
        await until(lambda: world.candidates() == [1], "trained")
        await until(lambda: not world.open_scores(), "acknowledged")
    assert CheckpointStore(world.store).manifest("demo", 1).metrics["turns"] == 2
