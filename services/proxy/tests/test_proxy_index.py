"""The session index: what a turn costs in Redis, what the local cache saves, what is known of turns and sessions."""

from typing import Any

import pytest
from redis.asyncio import Redis

from drivetrain.common.bus import MemoryBus
from drivetrain.common.identity import new_id
from drivetrain.proxy.recording.capture import known_turn
from tests.proxy_replicas import away, conversation, line, lose, recorded, tokens, whole


class Cost:
    """Commands and bytes that Redis was sent and sent back, but for those of the counting itself."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._before = (0, 0)

    async def begin(self) -> None:
        first, second = await self._read(), await self._read()
        self._before = (2 * second[0] - first[0], 2 * second[1] - first[1])

    async def end(self) -> tuple[int, int]:
        after = await self._read()
        return after[0] - self._before[0], after[1] - self._before[1]

    async def _read(self) -> tuple[int, int]:
        stats = await self._redis.info("stats")
        commands = int(stats["total_commands_processed"])
        return commands, int(stats["total_net_input_bytes"]) + int(stats["total_net_output_bytes"])


async def test_turn_200_costs_what_turn_2_costs_when_two_replicas_take_turns(start: Any, bus: MemoryBus) -> None:
    replicas, turns = [start(bus), start(bus)], conversation(200)
    cost, spent = Cost(start(bus).redis), {}
    for number, turn in enumerate(turns, start=1):
        replica, before = replicas[number % 2], turns[: number - 1]
        await cost.begin()
        past = await replica.sessions.find([line(earlier) for earlier in reversed(before)])
        await replica.serve(turn, publish=False)
        spent[number] = await cost.end()
        assert number == 1 or whole(past) == tokens(before)
    assert spent[200][0] == spent[100][0] == spent[10][0] <= spent[2][0] + 2
    assert spent[200][1] < 1.05 * spent[10][1] < 3500


async def test_what_this_replica_answered_itself_needs_no_question_to_redis(start: Any, bus: MemoryBus) -> None:
    replica, turns = start(bus), conversation(3)
    for turn in turns:
        await replica.serve(turn)
    async with away(replica):
        assert whole(await replica.sessions.find([line(turn) for turn in reversed(turns)])) == tokens(turns)


async def test_a_replica_that_knows_nothing_reads_a_conversation_at_once(start: Any, bus: MemoryBus) -> None:
    one, two, turns = start(bus), start(bus), conversation(50)
    for turn in turns:
        await one.serve(turn, publish=False)
    cost = Cost(start(bus).redis)
    await cost.begin()
    assert whole(await two.sessions.find([line(turn) for turn in reversed(turns)])) == tokens(turns)
    assert (await cost.end())[0] < 10
    assert await two.sessions.find([line(turns[20])]) is not None


async def test_a_cache_that_is_too_small_changes_nothing_but_the_cost(start: Any, bus: MemoryBus) -> None:
    replica, turns = start(bus, cache_bytes=2000), conversation(30)
    for number, turn in enumerate(turns):
        if number:
            digests = [line(earlier) for earlier in reversed(turns[:number])]
            assert whole(await replica.sessions.find(digests)) == tokens(turns[:number])
        await replica.serve(turn)


async def test_the_last_reply_of_a_session_is_the_one_that_finished_last(start: Any, bus: MemoryBus) -> None:
    one, turns = start(bus), conversation(3)
    side = recorded(9, turns[2], kind="side")
    cut = recorded(10, turns[2], finish="aborted")
    for turn in (turns[2], side, cut, turns[0], turns[1]):
        await one.serve(turn)
    for replica in (one, start(bus)):
        found = await replica.sessions.last(turns[0].session)
        assert found is not None
        assert found.turn == turns[2].turn


@pytest.mark.parametrize("rebuilt", [False, True])
async def test_replies_are_known_by_id_and_by_session_after_a_loss_and_a_restart(
    start: Any, bus: MemoryBus, rebuilt: bool
) -> None:
    one, turns = start(bus), conversation(3)
    for turn in turns:
        await one.serve(turn)
    await lose(one)
    fresh = start(bus)
    if rebuilt:
        await fresh.rebuilder.look()
    by_id, by_session = await fresh.sessions.turn(turns[1].turn), await fresh.sessions.last(turns[0].session)
    assert by_id == known_turn(turns[1])
    assert by_session == known_turn(turns[2])
    assert await fresh.sessions.turn(new_id()) is None
    assert await fresh.sessions.last(new_id()) is None


async def test_attempts_of_one_request_are_known_to_all_and_after_a_loss(start: Any, bus: MemoryBus) -> None:
    one, two, first = start(bus), start(bus), recorded(1)
    again = recorded(2, session=first.session, place=first.place)
    await one.serve(first)
    await two.serve(again)
    assert first.place is not None
    await lose(one)
    fresh = start(bus)
    await fresh.rebuilder.look()
    for replica in (one, two, fresh):
        attempts = await replica.sessions.attempts(first.place.asked)
        assert [known.turn for known in attempts] == [first.turn, again.turn]
        known = await replica.sessions.first(first.session)
        assert known is not None
        assert known.turn == first.turn
