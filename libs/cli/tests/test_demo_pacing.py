"""The pace of the sessions, and how the delay of a correction is measured."""

import asyncio

import pytest

from drivetrain.cli.demo.corrections import Corrections
from drivetrain.cli.demo.pacing import Gate, Pace


def test_a_turn_is_ahead_from_its_reaction_until_it_is_served() -> None:
    pace = Pace(limit=2)
    pace.followed("a")
    assert (pace.outstanding, pace.ahead) == (1, 1)
    pace.settled("a", usable=True)
    assert (pace.outstanding, pace.ahead) == (0, 1)
    pace.trained += 1
    assert pace.ahead == 0


def test_what_cannot_train_is_not_waited_for() -> None:
    pace = Pace(limit=2)
    pace.followed("a")
    pace.settled("a", usable=False)
    assert pace.ahead == 0


def test_a_score_may_be_seen_before_the_reaction() -> None:
    pace = Pace(limit=2)
    pace.settled("a", usable=True)
    pace.followed("a")
    assert pace.ahead == 1


def test_a_batch_larger_than_what_was_seen_gives_no_credit() -> None:
    pace = Pace(limit=2, trained=16)
    pace.followed("a")
    assert pace.ahead == 1


def test_sessions_wait_at_the_limit() -> None:
    pace = Pace(limit=2)
    pace.followed("a")
    assert not pace.must_wait()
    pace.followed("b")
    assert pace.must_wait()
    assert pace.position() == 3


async def test_the_gate_opens_when_a_version_is_served() -> None:
    gate = Gate(Pace(limit=1, usable=1))
    opening = asyncio.create_task(gate.open())
    await gate.changed()
    assert not opening.done()
    gate.pace.trained = 1
    await gate.changed()
    await asyncio.wait_for(opening, 5)
    assert gate.forgiven == 0


async def test_a_closed_gate_lets_everybody_through() -> None:
    gate = Gate(Pace(limit=1, usable=5))
    opening = asyncio.create_task(gate.open())
    await gate.close()
    await asyncio.wait_for(opening, 5)


async def test_whoever_waits_in_vain_starts_afresh() -> None:
    gate = Gate(Pace(limit=1, usable=5), patience_s=0.01)
    gate.pace.followed("lost")
    await asyncio.wait_for(gate.open(), 5)
    assert (gate.pace.ahead, gate.forgiven) == (0, 1)


async def test_progress_of_the_trainer_renews_the_patience() -> None:
    gate = Gate(Pace(limit=1, usable=48), patience_s=30)
    waiting = asyncio.create_task(gate.caught_up(rest=0))
    for trained in (16, 32):
        gate.pace.trained = trained
        await gate.changed()
        await asyncio.sleep(0)
        assert not waiting.done()
    gate.pace.trained = 48
    await gate.changed()
    await asyncio.wait_for(waiting, 5)


def test_a_correction_takes_until_a_reply_of_a_version_trained_with_it() -> None:
    seen = Corrections()
    seen.objected(position=10, at=100.0)
    seen.replied(asked_at=101.0, finished_at=103.0)
    seen.promoted(trained=8, at=110.0)
    seen.replied(asked_at=111.0, finished_at=112.0)
    seen.promoted(trained=16, at=120.0)
    seen.replied(asked_at=119.0, finished_at=125.0)
    assert seen.delays_s == []
    seen.replied(asked_at=121.0, finished_at=124.5)
    assert seen.delays_s == [24.5]
    assert seen.unanswered() == 0


def test_delays_are_summed_up() -> None:
    seen = Corrections()
    assert (seen.median_s(), seen.p90_s()) == (None, None)
    for number in range(11):
        seen.objected(position=number + 1, at=float(number))
    seen.objected(position=99, at=0.0)
    seen.promoted(trained=11, at=50.0)
    seen.replied(asked_at=50.0, finished_at=60.0)
    assert seen.median_s() == pytest.approx(55.0)
    assert seen.p90_s() == pytest.approx(59.0)
    assert seen.unanswered() == 1
