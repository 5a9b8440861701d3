"""Feedback of people: which turn it is about, and that it overrides what was inferred."""

import pytest

from drivetrain.common.events import Signal
from drivetrain.judge import joins
from tests.judge_world import bench, feedback, followed, recorded, user


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


async def test_another_tenants_feedback_changes_nothing() -> None:
    signal = Signal(kind="feedback", tenant="other", policy="p", session="s", id="x", turn="t", value=-1, at=1.0)
    async with bench() as judge:
        await judge.put(recorded("t"), signal)
        await judge.letter()
        await judge.put(followed("t", user("Thanks!")))
        assert (await judge.scores(1))["t", 0].reward == 1


def test_revisions_of_signals_never_meet_those_of_next_states() -> None:
    numbers = {joins.revision_of(feedback(str(i), value=1)) for i in range(500)}
    assert len(numbers) == 500
    assert min(numbers) >= joins.SIGNAL_REVISIONS
    with pytest.raises(joins.BadEvent, match="n must lie"):
        joins.check_followed(followed("t", n=joins.SIGNAL_REVISIONS))
