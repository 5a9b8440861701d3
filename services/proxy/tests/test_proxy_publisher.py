"""From the spool to the bus: many sessions at a time, each in its order, every next state under a number of its own."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from drivetrain.common.bus import Bus, BusError, MemoryBus, connect
from drivetrain.common.events import Event, Signal, TurnFollowed
from drivetrain.common.identity import new_id
from drivetrain.common.settings import BusSettings
from drivetrain.proxy.recording.publisher import Publisher
from drivetrain.proxy.recording.recorder import Recorder
from drivetrain.proxy.recording.spool import Spool

Publish = Callable[..., Any]


def state(
    text: str, kind: Literal["messages", "ended", "idle", "superseded"] = "messages", turn: str = "t", at: float = 1.0
) -> TurnFollowed:
    messages = [{"role": "user", "content": text}] if kind == "messages" else []
    return TurnFollowed(
        tenant="a", policy="p", session="s", turn=turn, n=1, kind=kind, messages=messages, before=[], reply={}, at=at
    )


def signal(session: str, number: int) -> Signal:
    return Signal(kind="feedback", tenant="a", policy="p", session=session, id=f"{number:04d}", value=1.0, at=1.0)


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    """Publish events as one replica would: `await publish(bus, event, …)`."""

    async def one_replica(bus: Bus, *events: Event) -> None:
        recorder = Recorder(Spool(tmp_path / new_id()))
        for event in events:
            assert await recorder.record(event)
        await Publisher(recorder, bus, retry_s=(0.001, 0.002)).run(stopping=lambda: True)
        assert recorder.spool.backlog_bytes == 0
        recorder.spool.close()

    return one_replica


async def states(bus: Bus, turn: str = "t") -> list[tuple[int, str, str]]:
    stored = [s.event async for s in bus.replay("TURNS", f"turn.followed.*.p.s.{turn}.*")]
    followed = [event for event in stored if isinstance(event, TurnFollowed)]
    return [(event.n, event.kind, event.messages[0]["content"] if event.messages else "") for event in followed]


async def test_what_two_replicas_saw_of_one_request_is_one_next_state(publish: Publish) -> None:
    bus = MemoryBus()
    await publish(bus, state("Thanks", at=1.0))
    await publish(bus, state("Thanks", at=2.0))
    assert await states(bus) == [(1, "messages", "Thanks")]


async def test_next_states_are_numbered_on_whichever_replica_sees_them(publish: Publish) -> None:
    bus = MemoryBus()
    await publish(bus, state("one"), state("two"))
    await publish(bus, state("three"), state("one"))
    await publish(bus, state("two"), state("four"))
    assert await states(bus) == [(i + 1, "messages", text) for i, text in enumerate(["one", "two", "three", "four"])]


async def test_replicas_that_publish_at_once_never_take_the_same_number(publish: Publish) -> None:
    bus = MemoryBus()
    await asyncio.gather(*(publish(bus, *(state(f"{i}-{j}") for j in range(5))) for i in range(5)))
    found = await states(bus)
    assert [n for n, _, _ in found] == list(range(1, 26))
    assert {text for _, _, text in found} == {f"{i}-{j}" for i in range(5) for j in range(5)}


async def test_a_session_that_speaks_after_it_went_idle_goes_on_with_the_next_number(publish: Publish) -> None:
    bus = MemoryBus()
    await publish(bus, state("", "idle"))
    await publish(bus, state("Back again"))
    assert await states(bus) == [(1, "idle", ""), (2, "messages", "Back again")]


@pytest.mark.parametrize("first", ["messages", "ended", "idle"])
async def test_nothing_came_is_not_said_of_a_turn_to_which_something_came(publish: Publish, first: Any) -> None:
    bus = MemoryBus()
    await publish(bus, state("x", first))
    await publish(bus, state("", "idle"))
    assert [kind for _, kind, _ in await states(bus)] == [first]


async def test_a_log_that_is_read_again_from_its_beginning_stores_nothing_twice(tmp_path: Path) -> None:
    bus, events = MemoryBus(), [state("one"), state("two"), state("", "idle", turn="u"), signal("s", 1)]
    for _ in range(2):
        recorder = Recorder(Spool(tmp_path))
        if not bus.streams["SIGNALS"]:
            for event in events:
                await recorder.record(event)
        await Publisher(recorder, bus).run(stopping=lambda: True)
        recorder.spool.close()
        (tmp_path / "cursor").unlink()
    assert len(bus.streams["TURNS"]) == 3
    assert len(bus.streams["SIGNALS"]) == 1


async def test_a_slow_session_does_not_hold_up_the_others_and_keeps_its_order(publish: Publish) -> None:
    class Slow(MemoryBus):
        def __init__(self) -> None:
            super().__init__()
            self.others = asyncio.Event()

        async def publish(self, event: Any, headers: Any = None) -> int | None:
            if event.session == "slow":
                await asyncio.wait_for(self.others.wait(), 5)
            sequence = await super().publish(event, headers)
            if len(self.streams["SIGNALS"]) == 20:
                self.others.set()
            return sequence

    bus = Slow()
    slow = [signal("slow", i) for i in range(10)]
    await publish(bus, *slow, *(signal(f"s{i}", 100 + i) for i in range(20)))
    stored = [s.event async for s in bus.replay("SIGNALS", "signal.*.*.p.slow.*")]
    assert stored == slow


async def test_a_session_keeps_its_order_when_the_bus_fails_now_and_then(publish: Publish) -> None:
    class Shaky(MemoryBus):
        chance = random.Random(7)

        async def publish(self, event: Any, headers: Any = None) -> int | None:
            await asyncio.sleep(0)
            if self.chance.random() < 0.3:
                raise BusError("away")
            return await super().publish(event, headers)

    bus = Shaky()
    await publish(bus, *(signal(f"s{i % 3}", i) for i in range(200)))
    for session in range(3):
        ids = [s.event.id async for s in bus.replay("SIGNALS", f"signal.*.*.p.s{session}.*")]  # type: ignore[attr-defined]
        assert ids == [f"{i:04d}" for i in range(session, 200, 3)]


async def test_numbers_are_free_on_a_real_stream_too(publish: Publish, nats_url: str) -> None:
    bus = await connect(BusSettings(url=nats_url))
    turn = new_id()
    await publish(bus, state("one", turn=turn), state("two", turn=turn))
    await publish(bus, state("two", turn=turn), state("", "idle", turn=turn), state("three", turn=turn))
    assert [text for _, _, text in await states(bus, turn)] == ["one", "two", "three"]
    await bus.close()
