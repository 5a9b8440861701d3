"""The judge over the in-memory bus: what goes in, what comes out, once."""

import pytest

from drivetrain.common.events import Message, Signal
from drivetrain.common.settings import BadSettings, resolve
from drivetrain.judge.app import consumers
from drivetrain.judge.settings import JudgeSettings
from drivetrain.judge.sources.base import Case, Opinion, Source
from tests.judge_world import bench, feedback, followed, outcome, recorded, tool, user

FAILED, PASSED = "== 1 failed in 0.1s ==", "== 4 passed in 0.1s =="


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
        await judge.put(recorded("t"), followed("t", tool("bash: x: command not found"), tool("fine"), user("thanks")))
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
        await judge.put(recorded("t"), followed("t", *odd))
        assert (await judge.scores(1))["t", 0].reward == -1


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
