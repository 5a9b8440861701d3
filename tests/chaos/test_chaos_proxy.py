"""SIGKILL of a proxy, of NATS and of Redis under fifty streams: nobody else notices, and nothing received is lost."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

import aiohttp
import pytest

from drivetrain.common.events import TurnFollowed, TurnRecorded
from drivetrain.common.tokens import unpack_ids
from tests.chaos.clients import Crowd, Person, stream
from tests.chaos.deployment import Deployment
from tests.chaos.engine import sampled

pytestmark = pytest.mark.slow

PERSONS = 50
SETTLE_S = 30.0


def crowd(deployment: Deployment, name: str) -> tuple[Crowd, list[Person], list[Person]]:
    """Fifty persons, half of them at each proxy; when a proxy fails them they turn to the other one."""
    one, two = deployment.proxies
    persons = [
        Person(f"{name}{number}", [one.url, two.url] if number % 2 else [two.url, one.url]) for number in range(PERSONS)
    ]
    return Crowd(persons), persons[1::2], persons[::2]


async def stream_of(deployment: Deployment) -> tuple[list[TurnRecorded], list[TurnFollowed]]:
    events = [stored.event async for stored in deployment.bus.replay("TURNS", "turn.>")]
    recorded = [event for event in events if isinstance(event, TurnRecorded)]
    return recorded, [event for event in events if isinstance(event, TurnFollowed)]


async def settled(deployment: Deployment, wanted: set[str]) -> tuple[list[TurnRecorded], list[TurnFollowed]]:
    """The stream, once it has all these turns; it must not take long."""
    async with asyncio.timeout(SETTLE_S):
        while True:
            recorded, followed = await stream_of(deployment)
            if wanted <= {turn.turn for turn in recorded}:
                return recorded, followed
            await asyncio.sleep(0.2)


async def check(deployment: Deployment, persons: Sequence[Person]) -> None:
    """Every reply that was received whole is in the stream exactly once, token for token, each conversation is one
    chain, and what each person said next is there once."""
    recorded, followed = await settled(deployment, {reply.turn for person in persons for reply in person.received})
    times, turns = Counter(turn.turn for turn in recorded), {turn.turn: turn for turn in recorded}
    next_states = Counter((state.turn, state.kind, said(state)) for state in followed)
    assert max(Counter((state.turn, state.n) for state in followed).values()) == 1
    for person in persons:
        assert len(person.received) >= 2
        before: str | None = None
        for number, reply in enumerate(person.received):
            turn = turns[reply.turn]
            assert times[reply.turn] == 1
            assert unpack_ids(turn.response_ids) == sampled(reply.turn)
            assert (turn.finish, turn.parent, turn.reply["content"]) == ("stop", before, reply.text)
            if before is not None:
                assert next_states[before, "messages", person.question(number)["content"]] == 1
            before = reply.turn


def said(state: TurnFollowed) -> str:
    return "".join(message["content"] for message in state.messages)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SETTLE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.05)


def assert_unaware(persons: Sequence[Person]) -> None:
    """No reply of these persons failed or stood still."""
    assert [failure for person in persons for failure in person.failures] == []
    assert max(reply.silence_s for person in persons for reply in person.received) < 5


async def test_a_proxy_is_killed(deployment: Deployment) -> None:
    people, at_one, at_two = crowd(deployment, "a")
    one, _ = deployment.proxies
    async with people.talking():
        await people.each(1)
        one.kill()
        one.start()  # as a supervisor does, while people talk on at the other one
        await people.each(2)
    assert_unaware(at_two)
    assert all(len(person.failures) == 1 for person in at_one)
    await one.ready()
    await check(deployment, people.persons)


async def test_nats_is_killed(deployment: Deployment) -> None:
    people, *_ = crowd(deployment, "b")
    async with people.talking():
        await people.each(1)
        deployment.nats.kill()
        await people.each(2)
        deployment.nats.start()
        await deployment.nats.listening()
        await people.each(1)
    assert_unaware(people.persons)
    await check(deployment, people.persons)


async def test_redis_is_killed(deployment: Deployment) -> None:
    people, *_ = crowd(deployment, "c")
    async with people.talking():
        await people.each(1)
        deployment.valkey.kill()
        await people.each(1)
        deployment.valkey.start()
        await deployment.valkey.listening()
        await people.each(2)
        # Whoever was served by one proxy goes on at the other
        for person in people.persons:
            person.urls = person.urls[::-1]
        await people.each(2)
    assert_unaware(people.persons)
    await check(deployment, people.persons)


async def test_callers_that_leave_abort_the_engine_and_are_recorded_as_such(deployment: Deployment) -> None:
    _, two = deployment.proxies
    engine, before = deployment.engine, set(deployment.engine.asked)
    engine.held = True
    async with aiohttp.ClientSession() as http:
        tasks = [asyncio.create_task(stream(http, two.url, [question(number)])) for number in range(PERSONS)]
        await until(lambda: len(engine.asked) == len(before) + PERSONS)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    engine.held = False
    gone = engine.asked - before
    await until(lambda: gone <= engine.aborted)
    recorded, _ = await settled(deployment, gone)
    assert Counter(turn.finish for turn in recorded if turn.turn in gone) == {"aborted": PERSONS}


def question(number: int) -> dict[str, str]:
    return {"role": "user", "content": f"gone {number}"}
