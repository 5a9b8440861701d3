"""One conversation at a time: what is sent, in which order, when it ends, and how many are held at once."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from drivetrain.cli.demo.chat import Reply, RequestFailed
from drivetrain.cli.demo.pacing import Gate, Pace
from drivetrain.cli.demo.questions import Question, Subject
from drivetrain.cli.demo.sessions import THANKS_TOKENS, Sessions, reply_limit
from drivetrain.cli.demo.taste import load_taste

TASTE = load_taste()
SNOW = Question("What is snow?", Subject("snow", "snow"))
GOOD = "Snow is water that froze in the clouds and fell."
BAD = "Snow is cold. It is white. It falls in winter."


class Script:
    """A client that answers from a list, and remembers what it was sent."""

    def __init__(self, *replies: str, finish: str = "stop") -> None:
        self.replies, self.finish = list(replies), finish
        self.sent: list[list[dict[str, Any]]] = []
        self.limits: list[int] = []
        self.headers: list[Mapping[str, str]] = []
        self.at_once = self.most_at_once = 0

    async def ask(self, messages: list[Any], max_tokens: int, headers: Mapping[str, str]) -> Reply:
        self.sent.append([dict(message) for message in messages])
        self.limits.append(max_tokens)
        self.headers.append(headers)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        asked_at = time.monotonic()
        await asyncio.sleep(0)
        self.at_once -= 1
        text = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if text == "fail":
            raise RequestFailed("503")
        return Reply(text, self.finish, asked_at, time.monotonic())


def sessions(script: Script, **options: Any) -> Sessions:
    return Sessions(script, TASTE, Gate(Pace(limit=32)), "run", **options)  # type: ignore[arg-type]


async def held(*replies: str, finish: str = "stop") -> tuple[Script, Sessions]:
    script = Script(*replies, finish=finish)
    talking = sessions(script)
    await talking.hold("run-0", SNOW, random.Random(0))
    return script, talking


async def test_a_reply_that_fits_is_thanked_for_and_that_is_all() -> None:
    script, talking = await held(GOOD, "You are welcome.")
    assert [message["role"] for message in script.sent[1]] == ["user", "assistant", "user"]
    assert script.sent[1][1]["content"] == GOOD
    assert script.sent[1][2]["content"] in TASTE.thanks()
    assert script.limits == [reply_limit(TASTE), THANKS_TOKENS]
    assert (talking.talk.thanks, talking.talk.objections, talking.talk.given_up) == (1, 0, 0)


async def test_objects_twice_and_then_gives_up() -> None:
    script, talking = await held(BAD)
    assert len(script.sent) == 3
    assert [message["role"] for message in script.sent[2]] == ["user", "assistant", "user", "assistant", "user"]
    assert all(sent[-1]["content"].endswith(SNOW.text) for sent in script.sent)
    assert (talking.talk.thanks, talking.talk.objections, talking.talk.given_up) == (0, 2, 1)


async def test_an_objection_that_helps_is_followed_by_thanks() -> None:
    script, talking = await held(BAD, GOOD, "Bye.")
    assert len(script.sent) == 3
    assert script.sent[2][-1]["content"] in TASTE.thanks()
    assert (talking.talk.thanks, talking.talk.objections) == (1, 1)


async def test_only_the_first_reply_shows_what_was_learnt() -> None:
    _, talking = await held(BAD, GOOD, GOOD)
    assert [(first.fits, first.length_words) for first in talking.talk.firsts] == [(False, 10)]


@pytest.mark.parametrize("finish", ["", "abort"])
async def test_a_reply_that_is_not_whole_ends_the_session(finish: str) -> None:
    script, talking = await held(BAD, finish=finish)
    assert len(script.sent) == 1
    assert talking.talk.firsts == []


async def test_objections_stand_in_line_until_a_version_learnt_from_them() -> None:
    _, talking = await held(BAD, GOOD, "Bye.")
    corrections = talking.talk.corrections
    assert corrections.unanswered() == 1
    corrections.promoted(trained=16, at=time.monotonic())
    now = time.monotonic()
    corrections.replied(asked_at=now, finished_at=now + 1)
    assert 1 <= corrections.delays_s[0] < 5


def never() -> bool:
    return False


def after(count: int) -> Callable[[], bool]:
    left = iter(range(count))
    return lambda: next(left, None) is None


async def test_holds_so_many_at_once_and_no_more() -> None:
    script = Script(GOOD)
    talking = sessions(script, at_once=3)
    await talking.hold_all([SNOW] * 20, 0, never)
    assert talking.talk.done == 20
    assert script.most_at_once == 3


async def test_each_session_has_a_name_of_its_own() -> None:
    script = Script(GOOD)
    await sessions(script).hold_all([SNOW] * 5, 0, never)
    assert {headers["X-Session-Id"] for headers in script.headers} == {f"run-{number}" for number in range(5)}


async def test_opens_no_session_once_it_is_enough() -> None:
    talking = sessions(Script(GOOD))
    await talking.hold_all([SNOW] * 20, 0, after(4))
    assert talking.talk.done == 4


async def test_a_failed_request_ends_its_own_session_only() -> None:
    script = Script("fail", GOOD)
    talking = sessions(script, at_once=1)
    await talking.hold_all([SNOW] * 3, 0, never)
    assert talking.talk.done == 3
    assert talking.talk.thanks == 2


async def test_waits_at_the_gate_while_the_trainer_is_behind() -> None:
    script, gate = Script(GOOD), Gate(Pace(limit=1, usable=1))
    talking = Sessions(script, TASTE, gate, "run")  # type: ignore[arg-type]
    task = asyncio.create_task(talking.hold_all([SNOW], 0, never))
    await gate.changed()
    assert script.sent == []
    gate.pace.trained = 1
    await gate.changed()
    await asyncio.wait_for(task, 5)
    assert len(script.sent) == 2


async def test_the_same_seed_says_the_same() -> None:
    async def said(seed: int) -> list[str]:
        script = Script(BAD)
        await sessions(script, at_once=1).hold_all([SNOW] * 8, seed, never)
        return [sent[-1]["content"] for sent in script.sent]

    assert await said(1) == await said(1)
    assert await said(1) != await said(2)
