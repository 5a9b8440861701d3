"""What no judge can make sense of, on a real JetStream: a dead letter with its reason, or a wait. Never a score."""

from collections.abc import Callable

import msgspec
import pytest

from drivetrain.common.events import Event, encode
from tests.judge_world import feedback, followed, recorded, tool, user
from tests.judge_world_nats import Real

TRACE = "Traceback (most recent call last):\n  File 'a.py', line 1\nValueError: no such column"


def newer(event: Event) -> bytes:
    """The same event as the next major version would write it."""
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(encode(event)), "v": 2})


def cut(payload: bytes) -> bytes:
    return payload[:-7]


def not_utf8(payload: bytes) -> bytes:
    assert b"Thanks!" in payload
    return payload.replace(b"Thanks!", b"Than\xff\xfe!")


def no_map(payload: bytes) -> bytes:
    return b"<html>" + payload


@pytest.mark.parametrize("damage", [cut, not_utf8, no_map])
async def test_a_payload_that_cannot_be_read_is_a_dead_letter_and_the_rest_is_judged(
    real: Real, damage: Callable[[bytes], bytes]
) -> None:
    payload = damage(encode(followed("bad", user("Thanks!"))))
    await real.raw(followed("bad"), payload)
    await real.put(followed("good", user("Thanks!")))
    async with real.judging():
        letter = await real.letter()
        scores = await real.scores(1)
    assert set(scores) == {("good", 0)}
    assert letter.reason.startswith("TurnFollowed: ")
    assert (letter.subject_of, letter.payload) == (followed("bad").subject(), payload)


async def test_a_next_state_of_a_newer_version_stops_the_consumer_and_stays(real: Real) -> None:
    await real.raw(followed("new"), newer(followed("new", user("Thanks!"))))
    async with real.judging() as life:
        await real.until(lambda: "TURNS is readable" in life.unready())
    assert (await real.count("SCORES"), await real.count("DEAD")) == (0, 0)
    assert await real.unfinished() == 1


async def test_a_recorded_turn_of_a_newer_version_stops_the_consumer_too(real: Real) -> None:
    await real.raw(recorded("t"), newer(recorded("t")))
    await real.put(followed("t", tool(TRACE)))
    async with real.judging() as life:
        await real.until(lambda: "TURNS is readable" in life.unready())
    assert (await real.count("SCORES"), await real.count("DEAD")) == (0, 0)
    assert await real.unfinished() == 1


async def test_a_recorded_turn_that_cannot_be_read_takes_no_other_with_it(real: Real) -> None:
    await real.raw(recorded("bad"), encode(recorded("bad"))[:-3])
    await real.put(recorded("t"), followed("t", tool(TRACE)), followed("bad", tool(TRACE)))
    async with real.judging():
        letter = await real.letter()
        scores = await real.scores(1)
    assert {key: score.reward for key, score in scores.items()} == {("t", 0): -1.0}
    assert "has no turn bad: it was not recorded, or is kept no more" in letter.reason


async def test_a_turn_that_expired_is_a_dead_letter(real: Real) -> None:
    gone = recorded("gone")
    await real.put(gone, followed("gone", tool(TRACE)), feedback("f", value=1.0, turn="gone"))
    await real.expire(gone)
    async with real.judging():
        letters = [await real.letter(number) for number in (1, 2)]
    assert await real.count("SCORES") == 0
    assert all("has no turn gone: it was not recorded, or is kept no more" in letter.reason for letter in letters)


async def test_a_next_state_of_10_mb_is_judged_by_its_ends_and_leaves_a_small_score(real: Real) -> None:
    output = "line of a log\n" * 720_000 + TRACE
    assert len(output) > 10_000_000
    await real.put(recorded("t"), followed("t", tool(output)))
    async with real.judging():
        score = (await real.scores(1))["t", 0]
    assert score.reward == -1.0
    assert score.votes[0].evidence.startswith("Traceback")
    assert len(encode(score)) < 2000


async def test_a_large_next_state_whose_object_is_gone_is_a_dead_letter(real: Real) -> None:
    await real.put(recorded("t"), followed("t", tool("x" * 2_000_000)))
    await real.lose_objects()
    async with real.judging():
        letter = await real.letter()
    assert "is gone" in letter.reason
    assert await real.count("SCORES") == 0


async def test_an_event_of_another_kind_under_the_judges_subject_is_a_dead_letter(real: Real) -> None:

    await real.raw(followed("t"), encode(recorded("t")))
    async with real.judging():
        letter = await real.letter()
    assert letter.reason.startswith("TurnFollowed: ")
