"""Large payloads travel as objects. One whose object is gone is lost, and holds up nothing that comes after it."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from prometheus_client import REGISTRY

from drivetrain.common.bus import Consumer, NatsBus, connect
from drivetrain.common.bus.nats import OBJECT_HEADER
from drivetrain.common.bus.streams import OBJECTS
from drivetrain.common.events import DeadLetter, InvalidEvent, TurnFollowed
from drivetrain.common.settings import BusSettings


@pytest.fixture
async def bus(nats_url: str) -> AsyncIterator[NatsBus]:
    bus = await connect(BusSettings(url=nats_url))
    yield bus
    await bus.close()


def state(policy: str, turn: str, text: str = "short") -> TurnFollowed:
    messages = [{"role": "user", "content": text}]
    return TurnFollowed(
        tenant="t", policy=policy, session="s", turn=turn, n=1, messages=messages, before=[], reply={}, at=1.0
    )


async def lose(bus: NatsBus, event: TurnFollowed) -> None:
    """The object of a stored event is deleted."""
    stored = await bus.get("TURNS", event.subject())
    assert stored is not None
    await (await bus.js.object_store(OBJECTS)).delete(stored.headers[OBJECT_HEADER])


def left_out() -> float:
    return REGISTRY.get_sample_value("drivetrain_bus_replay_left_out_total", {"family": "turn"}) or 0.0


async def test_an_event_whose_object_is_gone_is_left_out_of_a_replay_and_counted(bus: NatsBus) -> None:
    policy, before = f"p{uuid4().hex[:12]}", left_out()
    events = [state(policy, "a"), state(policy, "b", "long " * 300_000), state(policy, "c", "also " * 300_000)]
    for event in events:
        await bus.publish(event)
    await lose(bus, events[1])
    found = [stored.event async for stored in bus.replay("TURNS", f"turn.followed.*.{policy}.>")]
    assert found == [events[0], events[2]]
    assert left_out() == before + 1
    with pytest.raises(InvalidEvent, match="is gone"):
        await bus.get("TURNS", events[1].subject())


async def test_a_consumer_buries_it_and_goes_on(bus: NatsBus) -> None:
    policy = f"p{uuid4().hex[:12]}"
    events = [state(policy, "a", "long " * 300_000), state(policy, "b")]
    for event in events:
        await bus.publish(event)
    await lose(bus, events[0])
    async with bus.consume(Consumer("TURNS", f"c-{policy}", (f"turn.followed.*.{policy}.>",))) as subscription:
        (delivery,) = await subscription.fetch(10, 5) or await subscription.fetch(10, 5)
        assert delivery.event == events[1]
        await delivery.ack()
    (stored,) = await bus.last("DEAD", f"dead.TURNS.c-{policy}")
    assert isinstance(stored.event, DeadLetter)
    assert "is gone" in stored.event.reason
    assert OBJECT_HEADER in stored.event.headers
