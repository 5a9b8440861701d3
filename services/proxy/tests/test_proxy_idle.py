"""Which turns go idle, when, and said by whom; and what then becomes of the attempts before them."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from drivetrain.common.bus import MemoryBus
from drivetrain.common.events import Event, TurnFollowed, TurnRecorded
from drivetrain.proxy.recording.capture import followed, known_turn
from tests.proxy_replicas import IDLE_S, Replica, conversation, lose, recorded


async def test_a_turn_goes_idle_once_however_many_replicas_look(start: Any, bus: MemoryBus) -> None:
    one, two, turn = start(bus), start(bus), recorded(1)
    await one.serve(turn)
    one.clock.now = turn.finished_at + IDLE_S - 1
    assert await one.closer.look() == 0
    one.clock.now = turn.finished_at + IDLE_S + 1
    await asyncio.gather(one.closer.look(), two.closer.look(), one.closer.look())
    one.clock.now += 1000
    await asyncio.gather(one.closer.look(), two.closer.look())
    assert one.idle + two.idle == [turn.turn]


async def test_an_idle_turn_says_what_it_was(start: Any, bus: MemoryBus) -> None:
    one, turn = start(bus), recorded(1)
    await one.serve(turn)
    other = start(bus)
    await other.closer.look()
    (event,) = other.said
    assert isinstance(event, TurnFollowed)
    assert (event.session, event.tenant, event.messages, event.at) == (turn.session, "a", [], 1000.0)
    assert (event.before, event.reply, event.trainable) == (turn.messages, turn.reply, True)


async def test_only_the_last_turn_of_a_conversation_goes_idle(start: Any, bus: MemoryBus) -> None:
    one, turns = start(bus), conversation(3)
    for number, turn in enumerate(turns):
        if number:
            one.sessions.followed(known_turn(turns[number - 1]), "x")
        await one.serve(turn)
    await one.closer.look()
    assert one.idle == [turns[-1].turn]


async def test_a_turn_that_is_not_awaited_never_goes_idle(start: Any, bus: MemoryBus) -> None:
    one, ended = start(bus), recorded(4)
    for turn in (recorded(1, kind="side"), recorded(2, finish="aborted"), recorded(3, finish="error")):
        await one.serve(turn)
    one.sessions.followed(known_turn(ended), "ended")
    await one.serve(ended)
    assert await one.closer.look() == 0


async def test_a_claim_of_a_replica_that_dies_comes_due_again(start: Any, bus: MemoryBus) -> None:
    one, two, turn = start(bus), start(bus), recorded(1)
    await one.serve(turn)

    async def full(_: Event) -> bool:
        return False

    one.closer._record = full
    assert await one.closer.look() == 1
    assert await two.closer.look() == 0
    one.clock.now += 61
    assert await two.closer.look() == 1
    assert two.idle == [turn.turn]


@pytest.mark.parametrize("outage_s", [10.0, 10_000.0])
async def test_deadlines_come_back_after_a_loss_and_only_of_what_nothing_followed(
    start: Any, bus: MemoryBus, outage_s: float
) -> None:
    one, turns = start(bus), conversation(3)
    lonely, closed = recorded(1), recorded(1)
    for turn in (*turns, lonely, closed):
        await one.serve(turn)
    for number, turn in enumerate(turns[:-1]):
        messages = turns[number + 1].messages
        await bus.publish(followed(known_turn(turn), messages, kind="messages", trainable=True, now=1.0))
    await bus.publish(followed(known_turn(closed), [], kind="idle", trainable=True, now=1.0))
    await lose(one)
    two = start(bus)
    two.clock.now += outage_s
    await two.rebuilder.look()
    await two.closer.look()
    assert sorted(two.idle) == sorted([turns[-1].turn, lonely.turn])


async def test_many_turns_that_are_due_are_closed_in_portions(start: Any, bus: MemoryBus) -> None:
    one, two = start(bus), start(bus)
    turns = [recorded(1) for _ in range(150)]
    for turn in turns:
        await one.serve(turn)
    assert await one.closer.look() == 100
    assert await two.closer.look() == 50
    assert sorted(one.idle + two.idle) == sorted(turn.turn for turn in turns)


def attempts(*finishes: str) -> list[TurnRecorded]:
    """Attempts of one request, one after another; the first begins at 1 s."""
    first = recorded(1)
    again = {"session": first.session, "place": first.place}
    return [
        recorded(1, **again, finish=finish, started_at=number - 0.5, finished_at=float(number))
        for number, finish in enumerate(finishes, start=1)
    ]


def kinds(replica: Replica) -> list[tuple[str, str, bool]]:
    return [(event.turn, event.kind, event.trainable) for event in replica.said if isinstance(event, TurnFollowed)]


async def test_the_last_attempt_of_a_request_goes_idle_and_those_before_it_came_to_nothing(
    start: Any, bus: MemoryBus
) -> None:
    one, two, turns = start(bus), start(bus), attempts("stop", "aborted", "stop")
    for replica, turn in zip((one, two, two), turns, strict=True):
        await replica.serve(turn)
    lost, cut, last = (turn.turn for turn in turns)
    one.clock.now = turns[0].finished_at + IDLE_S + 0.5
    await one.closer.look()
    assert kinds(one) == [(lost, "superseded", False)]
    one.clock.now = turns[2].finished_at + IDLE_S + 0.5
    await one.closer.look()
    assert kinds(one)[1] == (last, "idle", True)
    assert sorted(kinds(one)[2:]) == sorted([(lost, "superseded", False), (cut, "superseded", False)])
    # The bus stores what is said twice once.
    for event in one.said:
        await bus.publish(event)
    assert len(bus.streams["TURNS"]) == 3 + 3


async def test_an_attempt_after_which_only_cut_ones_came_goes_idle_itself(start: Any, bus: MemoryBus) -> None:
    one, turns = start(bus), attempts("stop", "aborted")
    for turn in turns:
        await one.serve(turn)
    await one.closer.look()
    assert kinds(one) == [(turns[0].turn, "idle", True)]


async def test_replies_that_were_asked_for_together_all_go_idle(start: Any, bus: MemoryBus) -> None:
    one, first = start(bus), recorded(1, started_at=1.0, finished_at=3.0)
    second = recorded(1, session=first.session, place=first.place, started_at=1.0, finished_at=4.0)
    for turn in (first, second):
        await one.serve(turn)
    await one.closer.look()
    assert sorted(kinds(one)) == sorted([(first.turn, "idle", True), (second.turn, "idle", True)])


async def test_a_conversation_that_went_idle_goes_on(
    start_proxy: Any, engine: Any, encode: Callable[[str], list[int]]
) -> None:
    engine.say_always(encode("Paris."))
    question, reply, thanks = (
        {"role": role, "content": text}
        for role, text in (("user", "The capital of France?"), ("assistant", "Paris."), ("user", "Thanks"))
    )
    async with start_proxy([engine.url], idle_s=0.001) as proxy, httpx.AsyncClient(timeout=20) as http:
        url = proxy.url + "/v1/chat/completions"
        await http.post(url, json={"model": "default", "messages": [question]})
        assert await proxy.closer.look() == 1
        await proxy.events()
        await http.post(url, json={"model": "default", "messages": [question, reply, thanks]})
        first, second = await proxy.recorded()
        assert second.parent == first.turn
        states = [(state.turn, state.n, state.kind, state.messages) for state in await proxy.followed()]
        assert states == [(first.turn, 1, "idle", []), (first.turn, 2, "messages", [thanks])]
