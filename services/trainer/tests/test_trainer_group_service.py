"""The service trained by rollouts: whole groups, a deadline, one rollout at a time; on the in-memory bus."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from drivetrain.common.bus import MemoryBus
from drivetrain.common.events import RolloutRef, RolloutScored, Sampling, Span, TurnRecorded, TurnScored, Vote
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.settings import resolve
from drivetrain.common.store import CheckpointStore
from drivetrain.common.tokens import pack_ids, pack_logprobs
from drivetrain.trainer.app import build_model, serve
from drivetrain.trainer.model.policy import load_tokenizer
from drivetrain.trainer.settings.settings import TrainerSettings
from drivetrain.trainer.training import Trainer


class Counted:
    """Meters that only remember what was dropped."""

    def __init__(self) -> None:
        self.drops: dict[str, int] = {}

    def stands(self, *arguments: object) -> None: ...
    def no_teacher(self, reason: str) -> None: ...
    def stepped(self, *arguments: object) -> None: ...
    def saved(self, seconds: float) -> None: ...

    def dropped(self, reason: str, turns: int = 1) -> None:
        self.drops[str(reason)] = self.drops.get(str(reason), 0) + turns


class Arena:
    """A bus with rollouts on it, and trainers."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.bus, self.folder, self.store, self.meters = MemoryBus(), folder, store, Counted()

    @asynccontextmanager
    async def trainer(self, method: str, *flags: str) -> AsyncIterator[Trainer]:
        needed = ["--policy", "demo", "--model", str(self.folder), "--store", str(self.store), "--method", method]
        small = ["--batch.size", "1", "--batch.min_size", "1", "--batch.max_wait_s", "600", "--max_ahead", "9"]
        settings = resolve(TrainerSettings, "trainer", [*needed, *small, *flags], environ={})
        async with asyncio.TaskGroup() as group:
            lifecycle = Lifecycle(group)
            tokenizer, model = load_tokenizer(str(self.folder)), build_model(settings)
            trainer = await serve(lifecycle, settings, self.bus, tokenizer, model, self.meters)  # type: ignore[arg-type]
            try:
                yield trainer
            finally:
                lifecycle.stop()
                await lifecycle.drain()
                await lifecycle.stack.aclose()

    async def rollout(self, name: str, outcome: float | None, turns: int = 1, size: int = 2, **changes: Any) -> None:
        """A session of one rollout, recorded and scored."""
        ref = RolloutRef(run="run", group=changes.pop("group", "g"), rollout=name, group_size=size)
        for n in range(turns):
            await self.turn(name, f"t{n}", f"t{n - 1}" if n else None, **changes.pop("recorded", {}))
        scored = RolloutScored(
            policy="demo", session=name, rollout=ref, judge="rules", n=0, outcome=outcome,
            reason=changes.pop("reason", "success"), turns=[f"t{n}" for n in range(turns)], at=0.0,
        )  # fmt: skip
        await self.bus.publish(scored)

    async def turn(self, session: str, turn: str, parent: str | None, **changes: Any) -> None:
        made: dict[str, Any] = {
            "tenant": "t", "policy": "demo", "session": session, "turn": turn, "parent": parent,
            "prompt_ids": pack_ids([3, 4]), "response_ids": pack_ids([40, 41]), "logprobs": pack_logprobs([-3.0, -3.0]),
            "versions": [Span(0, 2, 0)], "sampling": Sampling(), "finish": "stop", "exact": True,
            "messages": [{"role": "user", "content": "x"}], "reply": {"role": "assistant", "content": "y"},
            "started_at": 0.0, "finished_at": 1.0,
        }  # fmt: skip
        await self.bus.publish(TurnRecorded(**made | changes))

    def trained(self) -> list[dict[str, float]]:
        store = CheckpointStore(self.store)
        return [dict(store.manifest("demo", version).metrics) for version in store.versions("demo")]

    def settled(self, durable: str = "trainer-demo-rules-rollouts") -> bool:
        state = self.bus._states.get(("SCORES", durable))
        ours = [r.sequence for r in self.bus.streams["SCORES"] if r.subject.startswith("rollout.scored")]
        return state is not None and set(ours) <= state.done


@pytest.fixture
def arena(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arena:
    for poll in ("drivetrain.trainer.batches.intake.POLL_S", "drivetrain.common.bus.handling.POLL_S"):
        monkeypatch.setattr(poll, 0.02)
    return Arena(model_folder, tmp_path / "store")


async def until(condition: Callable[[], bool], what: str) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"never came: {what}")


async def test_a_group_trains_whole_once_it_is_complete(arena: Arena) -> None:
    async with arena.trainer("grpo") as trainer:
        await arena.rollout("a", 1.0, turns=3)
        await until(lambda: not arena.settled(), "the first member waits")
        await arena.rollout("b", -1.0)
        await until(lambda: trainer.loaded == 1, "trained")
        await until(arena.settled, "all members acknowledged")
    [metrics] = arena.trained()
    assert (metrics["turns"], metrics["reward_mean"]) == (4, pytest.approx(0.5))
    assert metrics["computed_tokens"] < 4 * 4  # the rollouts' prompts are one


async def test_a_group_goes_without_its_missing_members_after_the_deadline(arena: Arena) -> None:
    async with arena.trainer("rloo", "--group.max_wait_s", "0.3") as trainer:
        await arena.rollout("a", 1.0, size=3)
        await arena.rollout("b", None, turns=0, size=3, reason="timeout")
        await until(lambda: trainer.loaded == 1, "trained")
        await arena.rollout("c", 1.0, size=3)
        await until(arena.settled, "the late member is acknowledged")
    assert arena.trained()[0]["reward_mean"] == 2.0
    assert arena.meters.drops == {"late": 1}


async def test_a_group_that_all_won_is_dropped_and_counted(arena: Arena) -> None:
    async with arena.trainer("grpo"):
        await arena.rollout("a", 1.0)
        await arena.rollout("b", 1.0)
        await until(arena.settled, "acknowledged")
    assert arena.meters.drops == {"constant": 2}
    assert arena.trained() == []


async def test_votes_on_single_turns_count_in_grpo_step(arena: Arena) -> None:
    vote = TurnScored(
        tenant="t", policy="demo", session="a", turn="t0", n=0, judge="rules", reward=-1.0, hints=[], at=0.0,
        votes=[Vote(source="environment", value=-1.0, evidence="e"), Vote(source="outcome", value=1.0, evidence="e")],
    )  # fmt: skip
    await arena.bus.publish(vote)
    async with arena.trainer("grpo_step", "--group.norm", "mean") as trainer:
        await arena.rollout("a", 1.0, turns=2)
        await arena.rollout("b", 0.0, turns=1)
        await until(lambda: trainer.loaded == 1, "trained")
    # step 0: 1 - 1 and 0, so nothing; step 1 alone: 1
    assert arena.trained()[0]["reward_mean"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("method", ["reinforce_pp", "sft"])
async def test_rollouts_without_a_group_train_one_by_one(arena: Arena, method: str) -> None:
    async with arena.trainer(method) as trainer:
        await arena.rollout("a", 1.0, turns=2, size=8)
        await until(lambda: trainer.loaded == 1, "trained")
        await arena.rollout("b", 0.0, size=8)
        await until(arena.settled, "acknowledged")
    assert arena.trained()[0]["turns"] == 2
    assert arena.meters.drops == ({"no_signal": 1} if method == "sft" else {})


async def test_sft_imitates_replies_that_were_not_sampled_exactly(arena: Arena) -> None:
    async with arena.trainer("sft") as trainer:
        greedy = {"sampling": Sampling(temperature=0.0), "exact": False, "logprobs": pack_logprobs([float("nan")] * 2)}
        await arena.rollout("a", 1.0, recorded=greedy)
        await until(lambda: trainer.loaded == 1, "trained")
    assert arena.trained()[0]["loss"] > 0


async def test_a_turn_that_cannot_be_trained_leaves_its_rollout_in_the_comparison(arena: Arena) -> None:
    async with arena.trainer("grpo") as trainer:
        await arena.rollout("a", 1.0, recorded={"consent": "record"})
        await arena.rollout("b", -1.0)
        await until(lambda: trainer.loaded == 1, "trained")
    assert arena.meters.drops == {"no_consent": 1}
    assert arena.trained()[0]["reward_mean"] == pytest.approx(-1.0, rel=1e-5)
