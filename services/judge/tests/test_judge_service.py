"""The judge over the in-memory bus: what goes in, what comes out, once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from drivetrain.common.bus import MemoryBus
from drivetrain.common.events import (
    DeadLetter,
    Event,
    Message,
    RolloutRef,
    RolloutScored,
    Sampling,
    Signal,
    TurnFollowed,
    TurnRecorded,
    TurnScored,
)
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.settings import BadSettings, resolve
from drivetrain.common.tokens import pack_ids, pack_logprobs
from drivetrain.judge import joins
from drivetrain.judge.app import consumers, serve
from drivetrain.judge.settings import JudgeSettings
from drivetrain.judge.sources.base import Case, Opinion, Source
from drivetrain.judge.sources.environment import Environment
from drivetrain.judge.sources.feedback import Feedback
from drivetrain.judge.sources.outcome import Outcome
from drivetrain.judge.sources.reaction import Reaction

WHO: dict[str, Any] = {"tenant": "acme", "policy": "p", "session": "s"}
RULES: tuple[Source, ...] = (Feedback(), Outcome(), Environment(), Reaction())
ROLLOUT = RolloutRef(run="r", group="g", rollout="r1", group_size=2)
FAILED, PASSED = "== 1 failed in 0.1s ==", "== 4 passed in 0.1s =="


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def tool(text: str) -> Message:
    return {"role": "tool", "tool_call_id": "c", "content": text}


def recorded(turn: str, at: float = 1.0, **changes: Any) -> TurnRecorded:
    values: dict[str, Any] = {
        **WHO,
        "turn": turn,
        "parent": None,
        "prompt_ids": pack_ids([1]),
        "response_ids": pack_ids([2]),
        "logprobs": pack_logprobs([-0.5]),
        "versions": [],
        "sampling": Sampling(),
        "finish": "stop",
        "exact": True,
        "messages": [user("What is rain?")],
        "reply": {"role": "assistant", "content": "- water"},
        "started_at": at,
        "finished_at": at + 0.5,
    }
    return TurnRecorded(**{**values, **changes})


def followed(turn: str, *messages: Message, n: int = 0, **changes: Any) -> TurnFollowed:
    turn_of = recorded(turn)
    values = {
        **WHO,
        "turn": turn,
        "n": n,
        "messages": list(messages),
        "before": turn_of.messages,
        "reply": turn_of.reply,
    }
    return TurnFollowed(**{**values, "at": 2.0, **changes})


def feedback(
    number: str, value: float | None = None, text: str = "", turn: str | None = None, at: float = 9.0
) -> Signal:
    return Signal(kind="feedback", **WHO, id=number, turn=turn, value=value, text=text, at=at)


def outcome(value: float | None, **changes: Any) -> Signal:
    values = {"id": "o", "value": value, "rollout": ROLLOUT, "reason": "success", "at": 9.0}
    return Signal(kind="outcome", **WHO, **{**values, **changes})


class Bench:
    """A judge on a bus of its own."""

    def __init__(self, bus: MemoryBus) -> None:
        self.bus = bus

    async def put(self, *events: Event) -> None:
        for event in events:
            await self.bus.publish(event)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not done():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    async def scores(self, count: int) -> dict[tuple[str, int], TurnScored]:
        """The scores by turn and revision, once so many events are in SCORES."""
        await self.until(lambda: len(self.bus.streams["SCORES"]) >= count)
        events = [stored.event for stored in await self.bus.last("SCORES", "turn.scored.>")]
        return {(e.turn, e.n): e for e in events if isinstance(e, TurnScored)}

    async def rollout(self) -> RolloutScored:
        await self.until(lambda: any(r.subject.startswith("rollout") for r in self.bus.streams["SCORES"]))
        event = (await self.bus.last("SCORES", "rollout.scored.>"))[0].event
        assert isinstance(event, RolloutScored)
        return event

    async def letter(self) -> DeadLetter:
        await self.until(lambda: bool(self.bus.streams["DEAD"]))
        event = (await self.bus.last("DEAD", "dead.>"))[0].event
        assert isinstance(event, DeadLetter)
        return event


class Life(Lifecycle):
    """A life that ends at once: its consumers are cancelled while they wait."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        super().__init__(group)
        self.parts: list[asyncio.Task[None]] = []

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        self.parts.append(super().spawn(work, name))
        return self.parts[-1]

    def end(self) -> None:
        self.stop()
        for part in self.parts:
            part.cancel()


@asynccontextmanager
async def bench(
    shards: int = 1, replicas: int = 1, extra: tuple[Source, ...] = (), chosen: Sequence[Source] = RULES
) -> AsyncIterator[Bench]:
    bus = MemoryBus(shards=shards)
    settings = JudgeSettings(turn_wait_s=0.2)
    async with asyncio.TaskGroup() as group:
        lives = [Life(group) for _ in range(replicas)]
        for life in lives:
            serve(life, settings, bus, [*chosen, *extra])
        try:
            yield Bench(bus)
        finally:
            for life in lives:
                life.end()


async def test_an_objection_becomes_a_vote_with_evidence_and_a_hint() -> None:
    async with bench() as judge:
        await judge.put(followed("t", user("That's a list. Please write one plain sentence. What is rain?")))
        score = (await judge.scores(1))["t", 0]
    assert (score.reward, score.tenant, score.judge, score.trainable) == (-1, "acme", "rules", True)
    assert score.hints == ["Please write one plain sentence."]
    assert [vote.source for vote in score.votes] == ["reaction"]
    assert "one plain sentence" in score.votes[0].evidence


async def test_thanks_neutral_and_silence_are_three_things() -> None:
    async with bench() as judge:
        await judge.put(
            followed("a", user("Perfect, thanks!")),
            followed("b", user("How do tides work?")),
            followed("c", kind="idle"),
            followed("d", kind="ended"),
            followed("e", user("Thanks!"), trainable=False),
        )
        scores = await judge.scores(5)
    assert {turn: score.reward for (turn, _), score in scores.items()} == {"a": 1, "b": 0, "c": None, "d": None, "e": 1}
    assert [score.trainable for (turn, _), score in scores.items() if turn == "e"] == [False]
    assert all(score.votes == [] for (turn, _), score in scores.items() if turn in "cd")


async def test_all_messages_of_the_next_state_count() -> None:
    async with bench() as judge:
        await judge.put(followed("t", tool("bash: x: command not found"), tool("fine"), user("thanks")))
        score = (await judge.scores(1))["t", 0]
    assert score.reward == -1
    assert [(vote.source, vote.value) for vote in score.votes] == [
        ("environment", -1),
        ("environment", 0),
        ("reaction", 1),
    ]


async def test_tests_that_pass_after_a_failure_some_turns_ago() -> None:
    first = recorded("a", 1, messages=[user("fix it")])
    second = recorded("b", 2, parent="a", messages=[tool(FAILED)])
    third = recorded("c", 3, parent="b", messages=[tool("edited")])
    async with bench() as judge:
        await judge.put(first, second, third)
        await judge.put(followed("c", tool(PASSED), before=[tool("edited")]))
        score = (await judge.scores(1))["c", 0]
    assert score.reward == 1
    assert "1 failed" in score.votes[0].evidence


async def test_feedback_overrides_and_is_a_new_revision() -> None:
    signal = feedback("f1", value=1.0, turn="t", text="Always end with a question.")
    async with bench() as judge:
        await judge.put(recorded("t"), followed("t", user("Too long.")))
        await judge.scores(1)
        await judge.put(signal)
        scores = await judge.scores(2)
    late = scores["t", joins.revision_of(signal)]
    assert (scores["t", 0].reward, late.reward) == (-1, 1)
    assert [vote.source for vote in late.votes] == ["feedback", "reaction"]
    assert late.hints == ["Always end with a question."]


async def test_feedback_that_came_first_overrides_a_later_next_state_too() -> None:
    async with bench() as judge:
        await judge.put(recorded("a", 1), recorded("b", 5), feedback("f", value=-1, at=3.0))
        await judge.put(followed("a", user("Thanks!")), followed("b", user("Thanks!")))
        scores = await judge.scores(3)
    assert {key: score.reward for key, score in scores.items() if key[1] == 0} == {("a", 0): -1, ("b", 0): 1}


async def test_feedback_in_words_without_a_turn_means_the_last_reply() -> None:
    async with bench() as judge:
        await judge.put(recorded("a", 1), recorded("b", 5), recorded("side", 6, kind="side"))
        await judge.put(feedback("f", text="That was useless."))
        ((key, score),) = (await judge.scores(1)).items()
    assert key[0] == "b"
    assert (score.reward, score.votes[0].source) == (-1, "feedback")


async def test_a_turn_recorded_after_its_feedback_is_waited_for() -> None:
    async with bench() as judge:
        await judge.put(feedback("f", value=1, turn="late"))
        await judge.put(recorded("late", consent="record"))
        ((_, score),) = (await judge.scores(1)).items()
    assert (score.reward, score.trainable) == (1, False)


async def test_feedback_on_an_unknown_turn_is_a_dead_letter() -> None:
    async with bench() as judge:
        await judge.put(feedback("f", value=1, turn="nowhere"))
        letter = await judge.letter()
    assert "nowhere" in letter.reason


async def test_an_outcome_scores_the_rollout_and_its_turns() -> None:
    async with bench() as judge:
        await judge.put(recorded("b", 5, parent="a", rollout=ROLLOUT), recorded("a", 1, rollout=ROLLOUT))
        await judge.put(recorded("title", 2, kind="side"), followed("a", tool("Exit code: 1")), outcome(0.5))
        rollout = await judge.rollout()
        scores = await judge.scores(4)
    assert (rollout.outcome, rollout.reason, rollout.turns, rollout.rollout) == (0.5, "success", ["a", "b"], ROLLOUT)
    n = joins.revision_of(outcome(0.5))
    assert {turn: scores[turn, n].reward for turn in "ab"} == {"a": 0.5, "b": 0.5}
    assert scores["a", n].rollout == ROLLOUT


async def test_an_outcome_is_credited_to_turns_that_come_after_it_too() -> None:
    async with bench() as judge:
        await judge.put(recorded("a", 1, rollout=ROLLOUT), outcome(0.5, at=2.0))
        await judge.put(recorded("b", 5, parent="a", rollout=ROLLOUT), followed("b", kind="ended"))
        scores = await judge.scores(3)
    assert (scores["a", joins.revision_of(outcome(0.5))].reward, scores["b", 0].reward) == (0.5, 0.5)


async def test_a_discounted_outcome_counts_the_main_turns_that_came_later() -> None:
    chain: list[Source] = [Outcome(gamma=0.5), Environment()]
    async with bench(chosen=chain) as judge:
        turns = [recorded(name, at) for at, name in enumerate("abc")]
        await judge.put(*turns, recorded("side", 9, kind="side"), outcome(1.0))
        scores = await judge.scores(4)
        await judge.put(followed("a", tool("fine")))
        late = (await judge.scores(5))["a", 0]
    assert {turn: score.reward for (turn, _), score in scores.items()} == {"a": 0.25, "b": 0.5, "c": 1.0}
    assert (late.reward, late.votes[0].weight, late.votes[0].value) == (0.25, 0.25, 1.0)


async def test_a_superseded_attempt_gets_no_score_and_no_part_in_the_outcome() -> None:
    async with bench() as judge:
        await judge.put(*(recorded(name, at, rollout=ROLLOUT) for at, name in enumerate(("lost", "kept", "both"))))
        await judge.put(followed("lost", kind="superseded"), followed("both", kind="superseded"))
        await judge.put(followed("both", user("Thanks!"), n=1), outcome(0.5))
        rollout = await judge.rollout()
        scores = await judge.scores(4)
    assert rollout.turns == ["kept", "both"]
    n = joins.revision_of(outcome(0.5))
    assert set(scores) == {("both", 1), ("kept", n), ("both", n)}
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


@pytest.mark.parametrize(
    ("signal", "named"),
    [
        (feedback("f", value=1.5), "value"),
        (feedback("f", value=float("nan")), "value"),
        (feedback("f"), "value or a text"),
        (outcome(1.0, reason=None), "reason"),
    ],
)
async def test_a_signal_that_cannot_be_judged_is_a_dead_letter(signal: Signal, named: str) -> None:
    async with bench() as judge:
        await judge.put(signal)
        letter = await judge.letter()
        assert judge.bus.streams["SCORES"] == []
    assert named in letter.reason


async def test_a_truncated_payload_is_a_dead_letter_and_the_rest_is_judged() -> None:
    async with bench() as judge:
        judge.bus.store("TURNS", "turn.followed.0.p.s.bad.0", b"\x81\xa1")
        await judge.put(followed("t", user("Thanks!")))
        assert (await judge.scores(1))["t", 0].reward == 1
        assert (await judge.letter()).subject_of.endswith("bad.0")


async def test_odd_content_is_judged_all_the_same() -> None:
    odd: list[Message] = [
        {"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "Too long."}, 7, None]},
        {"role": "user"},
        {"content": None, "role": "tool"},
        {"role": "user", "content": {"a": 1}},
    ]
    async with bench() as judge:
        await judge.put(followed("t", *odd))
        assert (await judge.scores(1))["t", 0].reward == -1


async def test_another_tenants_feedback_changes_nothing() -> None:
    signal = Signal(kind="feedback", tenant="other", policy="p", session="s", id="x", turn="t", value=-1, at=1.0)
    async with bench() as judge:
        await judge.put(recorded("t"), signal)
        await judge.letter()
        await judge.put(followed("t", user("Thanks!")))
        assert (await judge.scores(1))["t", 0].reward == 1


async def test_replicas_share_the_work_and_score_each_turn_once() -> None:
    async with bench(shards=3, replicas=2) as judge:
        turns = [followed(f"t{i}", user("Too long."), session=f"s{i % 7}") for i in range(200)]
        await judge.put(*turns)
        scores = await judge.scores(200)
    assert len(scores) == 200
    assert len(judge.bus.streams["SCORES"]) == 200
    assert judge.bus.streams["DEAD"] == []


async def test_a_new_source_joins_by_its_name_alone() -> None:
    class Silence(Source):
        name = "silence"

        async def judge(self, case: Case) -> Opinion:
            return Opinion()

    async with bench(extra=(Silence(),)) as judge:
        await judge.put(followed("t", user("Thanks!")))
        assert (await judge.scores(1))["t", 0].reward == 1


def test_every_shard_has_two_consumers_of_its_own() -> None:
    found = consumers(JudgeSettings(), 2)
    assert sorted(subject for consumer in found for subject in consumer.subjects) == [
        "signal.*.0.>", "signal.*.1.>", "turn.followed.0.>", "turn.followed.1.>",
    ]  # fmt: skip
    assert len({consumer.durable for consumer in found}) == 4


def test_revisions_of_signals_never_meet_those_of_next_states() -> None:
    numbers = {joins.revision_of(feedback(str(i), value=1)) for i in range(500)}
    assert len(numbers) == 500
    assert min(numbers) >= joins.SIGNAL_REVISIONS
    with pytest.raises(joins.BadEvent, match="n must lie"):
        joins.check_followed(followed("t", n=joins.SIGNAL_REVISIONS))


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--model.enabled", "true"], "model.url"),
        (["--model.votes", "4"], "odd"),
        (["--concurrency", "0"], "concurrency"),
        (["--judge", "Not A Name"], "judge"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_the_remedy(flags: list[str], named: str) -> None:
    with pytest.raises(BadSettings, match=named):
        resolve(JudgeSettings, "judge", flags, {})
