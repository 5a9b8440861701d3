"""Groups without a verifier: held until complete, ranked by one call, and every turn gets the place of its rollout."""

import json
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from drivetrain.common.events import (
    Event,
    FinishReason,
    GroupRanked,
    RolloutFinished,
    RolloutRef,
    RolloutRequested,
    Standing,
    decode,
)
from drivetrain.common.identity import ROLLOUT_TENANT
from tests.judge_model_server import Say, asked
from tests.judge_world import Bench, bench, followed, outcome, recorded, user

TASK: dict[str, object] = {"name": "rain", "instruction": "Say what rain is."}
WORK = {"a": "rain is water", "b": "rain is a liquid", "c": "no idea"}


def ref(name: str, size: int = 3) -> RolloutRef:
    return RolloutRef(run="r", group="g", rollout=name, group_size=size)


def asked_for(name: str, task: dict[str, object] = TASK, size: int = 3) -> RolloutRequested:
    return RolloutRequested(rollout=ref(name, size), policy="p", task=task, timeout_s=60, at=1.0)


def worked(name: str, said: str, size: int = 3, **changes: Any) -> Event:
    reply = {"role": "assistant", "content": said}
    turn = {"tenant": ROLLOUT_TENANT, "session": name, "rollout": ref(name, size), "reply": reply}
    return recorded(f"turn-{name}", **{**turn, **changes})


def ended(name: str, reason: FinishReason = "success", size: int = 3, at: float = 9.0) -> list[Event]:
    """As the orchestrator reports it: the outcome, then the end."""
    told = outcome(None, tenant=ROLLOUT_TENANT, session=name, id=name, rollout=ref(name, size), reason=reason, at=at)
    end = RolloutFinished(
        rollout=ref(name, size), policy="p", session=name, reason=reason, outcome=None, seconds=1.0, at=at
    )
    return [told, end]


def places(body: dict[str, Any]) -> str:
    """A model that likes water best and no idea least, whatever letter they have."""
    pattern = rf"<<ATTEMPT (\w) \w+>>\n.*?({'|'.join(WORK.values())})"
    shown = dict(re.findall(pattern, body["messages"][1]["content"], re.DOTALL))
    order = [said for said in WORK.values() if said in shown.values()]
    return json.dumps({label: {"evidence": said, "place": order.index(said) + 1} for label, said in shown.items()})


@asynccontextmanager
async def ranked(say: Say = places, replicas: int = 2) -> AsyncIterator[tuple[Bench, list[dict[str, Any]]]]:
    async with asked(say) as (asker, seen), bench(asker=asker, replicas=replicas) as judge:
        yield judge, seen


async def rewards(judge: Bench, count: int) -> dict[str, float | None]:
    await judge.until(lambda: len({event.rollout.rollout for event in judge.results()}) >= count)
    return {event.rollout.rollout: event.outcome for event in judge.results()}


async def test_a_group_is_ranked_once_and_each_rollout_and_turn_gets_its_place() -> None:
    events = [*(asked_for(name) for name in WORK), *(worked(name, said) for name, said in WORK.items())]
    async with ranked() as (judge, seen):
        await judge.put(*events, *ended("c"), *ended("a"))
        await judge.until(lambda: judge.acknowledged("ROLLOUTS", 2))
        assert judge.results() == []  # held until the last one has ended
        await judge.put(*ended("b"))
        assert await rewards(judge, 3) == {"a": 1.0, "b": 0.0, "c": -1.0}
        await judge.until(lambda: len(judge.rewards()) == 3)
        assert judge.rewards() == {"turn-a": 1.0, "turn-b": 0.0, "turn-c": -1.0}
        result = next(event for event in judge.results() if event.rollout.rollout == "c")
    assert len(seen) == 1
    assert (result.reason, result.turns, result.rollout.group_size) == ("success", ["turn-c"], 3)
    assert [vote.evidence for vote in result.votes] == ["success -1 place 3 of 3: no idea"]
    content = seen[0]["messages"][1]["content"]
    assert "Say what rain is." in content
    assert set(seen[0]["response_format"]["json_schema"]["schema"]["required"]) == {"A", "B", "C"}


async def test_any_order_of_arrival_gives_the_same_ranking() -> None:
    for seed in range(12):
        requests = [asked_for(name) for name in WORK]
        work = [event for name, said in WORK.items() for event in (worked(name, said), *ended(name))]
        reports = work[:]
        random.Random(seed).shuffle(reports)
        # A rollout's turns are there when it has ended; all else may come in any order.
        first = [event for event in reports if not isinstance(event, RolloutFinished)]
        last = [event for event in reports if isinstance(event, RolloutFinished)]
        async with ranked(replicas=3) as (judge, seen):
            await judge.put(*requests, *first, *last)
            assert await rewards(judge, 3) == {"a": 1.0, "b": 0.0, "c": -1.0}
            await judge.until(partial(judge.acknowledged, "ROLLOUTS", 3))
        assert len(seen) == 1
        assert len([r for r in judge.bus.streams["SCORES"] if r.subject.startswith("group.")]) == 1


async def test_what_left_no_work_has_a_reason_and_no_outcome() -> None:
    async with ranked() as (judge, _):
        await judge.put(*(asked_for(name, size=4) for name in "abcd"))
        await judge.put(worked("a", WORK["a"], 4), worked("c", WORK["c"], 4), worked("b", "started", 4))
        await judge.put(*ended("a", size=4), *ended("b", "harness_crash", size=4), *ended("d", "timeout", size=4))
        await judge.put(*ended("c", "failure", size=4))
        assert await rewards(judge, 4) == {"a": 1.0, "c": -1.0, "b": None, "d": None}
        reasons = {event.rollout.rollout: (event.reason, event.turns) for event in judge.results()}
    assert reasons["b"] == ("harness_crash", ["turn-b"])
    assert reasons["d"] == ("timeout", [])
    assert set(judge.rewards()) == {"turn-a", "turn-c"}


@pytest.mark.parametrize("answer", ["A, then B", '{"A": {"evidence": "rain is water", "place": 1}}', ""])
async def test_an_answer_that_is_no_ranking_gives_nobody_an_outcome(answer: str) -> None:
    async with ranked(lambda body: answer) as (judge, seen):
        await judge.put(*(asked_for(name) for name in WORK), *(worked(name, said) for name, said in WORK.items()))
        await judge.put(*(event for name in WORK for event in ended(name)))
        assert await rewards(judge, 3) == {"a": None, "b": None, "c": None}
    assert (len(seen), judge.rewards()) == (1, {})
    (record,) = [r for r in judge.bus.streams["SCORES"] if r.subject.startswith("group.")]
    assert "no valid ranking" in decode(record.payload, GroupRanked).detail


async def test_a_group_that_lacks_a_rollout_is_ranked_when_its_run_goes_on() -> None:
    other = RolloutRef(run="r", group="later", rollout="z", group_size=2)
    later = RolloutFinished(
        rollout=other, policy="p", session="z", reason="success", outcome=None, seconds=1.0, at=9.0 + 3601
    )
    async with ranked() as (judge, seen):
        await judge.put(*(asked_for(name) for name in WORK), *(worked(name, said) for name, said in WORK.items()))
        await judge.put(*ended("a"), *ended("c"))
        await judge.until(lambda: judge.acknowledged("ROLLOUTS", 2))
        assert seen == []
        await judge.put(RolloutRequested(rollout=other, policy="p", task=TASK, timeout_s=60, at=2.0), later)
        assert await rewards(judge, 2) == {"a": 1.0, "c": -1.0}
        await judge.put(*ended("b", at=9.0 + 3700))  # too late to be compared
        assert await rewards(judge, 3) == {"a": 1.0, "c": -1.0, "b": None}
    assert len(seen) == 1


async def test_a_ranking_that_is_stored_holds_and_is_finished_by_whoever_comes_next() -> None:
    """As after a crash between the ranking and its results: nobody is asked again."""
    given = {"a": -1.0, "b": 0.0, "c": 1.0}
    standings = [
        Standing(rollout=name, session=name, reason="success", place=2 - reward, reward=reward, evidence="so it was")
        for name, reward in given.items()
    ]
    stored = GroupRanked(policy="p", run="r", group="g", group_size=3, judge="rules", standings=standings, at=9.5)
    async with ranked() as (judge, seen):
        await judge.put(
            stored, *(asked_for(name) for name in WORK), *(worked(name, said) for name, said in WORK.items())
        )
        await judge.put(*(event for name in WORK for event in ended(name)))
        assert await rewards(judge, 3) == given
        await judge.until(lambda: len(judge.rewards()) == 3)
        assert judge.rewards() == {f"turn-{name}": reward for name, reward in given.items()}
    assert seen == []


async def test_a_group_of_one_has_nobody_to_be_compared_with() -> None:
    async with ranked() as (judge, seen):
        await judge.put(asked_for("a", size=1), worked("a", WORK["a"], 1), *ended("a", size=1))
        assert await rewards(judge, 1) == {"a": None}
    assert seen == []


async def test_what_is_shown_is_masked_for_an_endpoint_that_is_not_ours() -> None:
    async with ranked() as (judge, seen):
        await judge.put(*(asked_for(name, {**TASK, "instruction": "Write to ann@example.com."}) for name in WORK))
        await judge.put(*(worked(name, f"{said}, ann@example.com") for name, said in WORK.items()))
        await judge.put(*(event for name in WORK for event in ended(name)))
        await rewards(judge, 3)
    assert "ann@" not in seen[0]["messages"][1]["content"]
    assert seen[0]["messages"][1]["content"].count("[e-mail]") == 4


async def test_a_turn_that_is_recorded_after_the_ranking_gets_its_rollouts_place() -> None:
    async with ranked() as (judge, _):
        await judge.put(*(asked_for(name) for name in WORK), *(worked(name, said) for name, said in WORK.items()))
        await judge.put(*(event for name in WORK for event in ended(name)))
        await rewards(judge, 3)
        place: dict[str, Any] = {"tenant": ROLLOUT_TENANT, "session": "c", "rollout": ref("c")}
        await judge.put(recorded("late", 5, **place), followed("late", user("Thanks!"), **place))
        assert (await judge.score("late", 0)).reward == -1.0
        await judge.until(lambda: any(event.turns == ["turn-c", "late"] for event in judge.results()))


async def test_a_task_with_a_verifier_is_not_ranked() -> None:
    verified = {**TASK, "verify": {"command": "true"}}
    async with ranked() as (judge, seen):
        await judge.put(*(asked_for(name, verified) for name in WORK))
        await judge.put(*(event for name in WORK for event in ended(name, "infrastructure")))
        assert await rewards(judge, 3) == {"a": None, "b": None, "c": None}
        await judge.until(lambda: judge.acknowledged("ROLLOUTS", 3))
    assert seen == []
