"""What is left when Redis comes back empty, old or not at all: the index is written anew from the stream, once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.common.bus import BusError, MemoryBus, connect
from drivetrain.common.bus.streams import OBJECTS
from drivetrain.common.settings import BusSettings
from tests.proxy_replicas import away, conversation, line, lose, recorded, tokens, whole
from tests.servers import free_port, nats_command, running


@pytest.mark.parametrize("parts", [1, 2])
async def test_a_conversation_goes_on_after_a_loss_of_redis(start: Any, bus: MemoryBus, parts: int) -> None:
    one, two, turns = start(bus), start(bus), conversation(12)
    for number, turn in enumerate(turns):
        await (one, two)[number % parts].serve(turn)
    await lose(one)
    fresh = start(bus)
    assert await fresh.sessions.find([line(turns[-1])]) is None
    await fresh.rebuilder.look()
    assert whole(await fresh.sessions.find([line(turn) for turn in reversed(turns)])) == tokens(turns)
    assert whole(await start(bus).sessions.find([line(turns[4])])) == tokens(turns[:5])


async def test_one_replica_rebuilds_and_the_others_find_it_done(start: Any, bus: MemoryBus) -> None:
    replicas = [start(bus) for _ in range(3)]
    for turn in conversation(300):
        await bus.publish(turn)
    calls = 0
    replay = bus.replay

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return replay(*arguments)

    bus.replay = counted  # type: ignore[assignment, method-assign]
    await asyncio.gather(*(replica.rebuilder.look() for replica in replicas))
    await asyncio.gather(*(replica.rebuilder.look() for replica in replicas))
    assert calls == 1
    epoch, server = await replicas[0].index.epoch() or ("", "?")
    assert epoch.startswith(server)


async def test_a_server_that_came_back_with_an_old_copy_is_filled_again(start: Any, bus: MemoryBus) -> None:
    one, turns = start(bus), conversation(2)
    await one.serve(turns[0])
    await one.index.mark("another-process epoch")
    await bus.publish(turns[1])
    await one.rebuilder.look()
    assert whole(await start(bus).sessions.find([line(turns[1])])) == tokens(turns)


async def test_a_rebuild_that_cannot_read_the_stream_is_done_later(start: Any, bus: MemoryBus) -> None:
    replica, turn, replay = start(bus), recorded(1), bus.replay

    async def broken(*_: Any) -> AsyncIterator[Any]:
        raise BusError("away")
        yield

    bus.replay = broken  # type: ignore[assignment, method-assign]
    await replica.rebuilder.look()
    assert (await replica.index.epoch() or ("?", ""))[0] == ""
    bus.replay = replay  # type: ignore[method-assign]
    await bus.publish(turn)
    await replica.rebuilder.look()
    assert await start(bus).sessions.turn(turn.turn) is not None


async def test_what_could_not_be_written_is_written_when_redis_is_back(start: Any, bus: MemoryBus) -> None:
    one, two, turns = start(bus), start(bus), conversation(4)
    await one.rebuilder.look()
    await one.serve(turns[0], publish=False)
    async with away(one):
        for turn in turns[1:]:
            await one.serve(turn, publish=False)
    assert await two.sessions.find([line(turns[3])]) is None
    await one.rebuilder.look()
    assert whole(await two.sessions.find([line(turns[3])])) == tokens(turns)


async def test_a_loss_while_the_bus_is_away_is_made_up_for_by_those_who_know(start: Any, bus: MemoryBus) -> None:
    one, two, turns = start(bus), start(bus), conversation(3)
    for replica in (one, two):
        await replica.rebuilder.look()
    for turn in turns:
        await one.serve(turn, publish=False)
    await lose(one)
    await two.rebuilder.look()
    await one.rebuilder.look()
    assert whole(await start(bus).sessions.find([line(turns[2])])) == tokens(turns)


async def test_a_turn_whose_payload_is_gone_is_left_out_and_the_others_are_found(start: Any, tmp_path: Path) -> None:
    with running(nats_command(port := free_port(), tmp_path / "nats"), port, tmp_path / "log"):
        bus = await connect(BusSettings(url=f"nats://127.0.0.1:{port}"))
        large = recorded(1, messages=[{"role": "user", "content": "long " * 300_000}])
        small = recorded(2)
        for turn in (large, small):
            await bus.publish(turn)
        store = await bus.js.object_store(OBJECTS)
        (thing,) = await store.list()
        await store.delete(str(thing.name))
        await start(bus).rebuilder.look()
        fresh = start(bus)
        assert (await fresh.index.epoch() or ("", ""))[0]
        assert await fresh.sessions.turn(small.turn) is not None
        assert await fresh.sessions.turn(large.turn) is None
        await bus.close()
