"""Outcomes of rollouts: what each came to, and the credit of its turns."""

from functools import partial
from itertools import permutations

import pytest

from drivetrain.common.bus import MemoryBus
from drivetrain.common.events import RolloutScored
from drivetrain.judge import joins
from drivetrain.judge.rerun.command import rerun
from drivetrain.judge.rerun.window import Window
from drivetrain.judge.settings import JudgeSettings
from drivetrain.judge.sources.base import Source
from drivetrain.judge.sources.environment import Environment
from drivetrain.judge.sources.outcome import Outcome
from tests.judge_world import ROLLOUT, Bench, bench, feedback, followed, outcome, recorded, tool, user

REVISION = joins.revision_of(outcome(0.5))


async def test_an_outcome_scores_the_rollout_and_its_turns() -> None:
    async with bench() as judge:
        await judge.put(recorded("b", 5, parent="a", rollout=ROLLOUT), recorded("a", 1, rollout=ROLLOUT))
        await judge.put(recorded("title", 2, kind="side"), followed("a", tool("Exit code: 1")), outcome(0.5))
        rollout = await judge.rollout()
        scores = await judge.scores(3)
    assert (rollout.outcome, rollout.reason, rollout.turns, rollout.rollout) == (0.5, "success", ["a", "b"], ROLLOUT)
    assert [(vote.source, vote.value, vote.evidence) for vote in rollout.votes] == [("outcome", 0.5, "success 0.5")]
    assert {turn: scores[turn, REVISION].reward for turn in "ab"} == {"a": 0.5, "b": 0.5}
    assert scores["a", REVISION].rollout == ROLLOUT


async def test_a_turn_recorded_after_the_outcome_is_scored_by_it_and_named_in_the_result() -> None:
    async with bench() as judge:
        await judge.put(recorded("a", 1, rollout=ROLLOUT), outcome(0.5, at=2.0))
        first = await judge.rollout()
        await judge.put(recorded("b", 5, parent="a", rollout=ROLLOUT))
        await judge.put(followed("b", kind="ended", rollout=ROLLOUT))
        rewards = [(await judge.score("a", REVISION)).reward, (await judge.score("b", 0)).reward]
        result = await judge.rollout(first.n + 1)
    assert rewards == [0.5, 0.5]
    assert (first.turns, result.turns, result.outcome) == (["a"], ["a", "b"], 0.5)


async def test_the_same_turns_make_no_new_result() -> None:
    async with bench() as judge:
        await judge.put(recorded("a", 1, rollout=ROLLOUT), outcome(0.5))
        await judge.rollout()
        await judge.put(
            followed("a", kind="idle", rollout=ROLLOUT), followed("a", user("Thanks!"), n=1, rollout=ROLLOUT)
        )
        await judge.score("a", 1)
    assert [event.turns for event in judge.results()] == [["a"]]


async def test_an_attempt_that_turns_out_to_be_superseded_leaves_the_result() -> None:
    async with bench() as judge:
        await judge.put(recorded("a", 1, rollout=ROLLOUT), recorded("b", 2, rollout=ROLLOUT), outcome(0.5))
        first = await judge.rollout()
        await judge.put(followed("a", kind="superseded", rollout=ROLLOUT))
        result = await judge.rollout(first.n + 1)
    assert (first.turns, result.turns) == (["a", "b"], ["b"])


async def test_a_second_outcome_gives_another_revision_of_turns_and_result() -> None:
    regraded = outcome(-1.0, id="again", at=12.0, reason="failure")
    async with bench() as judge:
        await judge.put(recorded("a", 1, rollout=ROLLOUT), outcome(0.5))
        first = await judge.rollout()
        await judge.put(regraded)
        result = await judge.rollout(first.n + 1)
        scores = [await judge.score("a", n) for n in (REVISION, joins.revision_of(regraded))]
    assert [score.reward for score in scores] == [0.5, -1.0]
    assert scores[0].seen < scores[1].seen
    assert (result.outcome, result.reason, result.turns) == (-1.0, "failure", ["a"])


async def test_a_value_is_not_taken_back_by_a_machine_that_failed_later() -> None:
    async with bench() as judge:
        await judge.put(outcome(0.5))
        first = await judge.rollout()
        await judge.put(outcome(None, id="again", at=12.0, reason="infrastructure"))
        result = await judge.rollout(first.n + 1)
    assert (result.outcome, result.reason) == (0.5, "success")


def in_the_end(judge: Bench, rewards: dict[str, float]) -> bool:
    return judge.rewards() == rewards


async def test_every_order_of_arrival_ends_in_the_same_result() -> None:
    events = [
        recorded("a", 1, rollout=ROLLOUT), recorded("b", 2, rollout=ROLLOUT), outcome(0.25),
        followed("a", tool("fine"), rollout=ROLLOUT), followed("b", kind="idle", rollout=ROLLOUT),
    ]  # fmt: skip
    for order in permutations(events):
        # What comes after a turn comes after it.
        if order.index(events[3]) < order.index(events[0]) or order.index(events[4]) < order.index(events[1]):
            continue
        async with bench(replicas=2) as judge:
            await judge.put(*order)
            result = await judge.rollout(3)
            scores = [await judge.score(turn, 0) for turn in "ab"]
            await judge.until(partial(in_the_end, judge, {"a": 0.25, "b": 0.25}))
        assert (result.turns, result.outcome, len(scores)) == (["a", "b"], 0.25, 2)


async def test_a_discounted_outcome_counts_the_main_turns_that_came_later() -> None:
    chain: list[Source] = [Outcome(gamma=0.5), Environment()]
    async with bench(chosen=chain) as judge:
        turns = [recorded(name, at) for at, name in enumerate("abc")]
        await judge.put(*turns, recorded("side", 9, kind="side"), outcome(1.0))
        scores = await judge.scores(3)
        await judge.put(followed("a", tool("fine")))
        late = await judge.score("a", 0)
    assert {turn: score.reward for (turn, _), score in scores.items()} == {"a": 0.25, "b": 0.5, "c": 1.0}
    assert (late.reward, late.votes[0].weight, late.votes[0].value) == (0.25, 0.25, 1.0)


async def test_a_superseded_attempt_gets_no_score_and_no_part_in_the_outcome() -> None:
    async with bench() as judge:
        await judge.put(*(recorded(name, at, rollout=ROLLOUT) for at, name in enumerate(("lost", "kept", "both"))))
        await judge.put(followed("lost", kind="superseded"), followed("both", kind="superseded"))
        await judge.put(followed("both", user("Thanks!"), n=1), outcome(0.5))
        rollout = await judge.rollout()
        scores = await judge.scores(3)
    assert rollout.turns == ["kept", "both"]
    assert set(scores) == {("both", 1), ("kept", REVISION), ("both", REVISION)}
    assert judge.bus.streams["DEAD"] == []


async def test_feedback_without_a_turn_does_not_mean_a_superseded_attempt() -> None:
    async with bench() as judge:
        await judge.put(recorded("kept", 1), recorded("lost", 5), followed("lost", kind="superseded"))
        await judge.put(feedback("f", text="That was useless."), feedback("g", value=1, turn="lost"))
        scores = await judge.scores(2)
    assert {turn: score.reward for (turn, _), score in scores.items()} == {"kept": -1, "lost": 1}


@pytest.mark.parametrize(("value", "reason"), [(-1.0, "timeout"), (None, "infrastructure")])
async def test_a_rollout_without_turns_counts_too(value: float | None, reason: str) -> None:
    async with bench() as judge:
        await judge.put(outcome(value, reason=reason))
        rollout = await judge.rollout()
    assert (rollout.outcome, rollout.reason, rollout.turns) == (value, reason, [])


async def test_a_judge_that_scores_again_gives_the_rollout_a_result_under_its_own_id() -> None:
    bus = MemoryBus()
    events = [recorded("a", 1, rollout=ROLLOUT), followed("a", tool("fine"), rollout=ROLLOUT), outcome(0.5)]
    for event in events:
        await bus.publish(event)
    report = await rerun(bus, JudgeSettings(), Window("p", 0.0, 1e9), "again", "rules", dry=False)
    results = [stored.event for stored in await bus.last("SCORES", "rollout.scored.>")]
    assert [(r.judge, r.outcome, r.turns) for r in results if isinstance(r, RolloutScored)] == [("again", 0.5, ["a"])]
    assert report.stored == 2
