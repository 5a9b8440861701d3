"""One contract for both buses: what a service relies on must hold in memory and on a real JetStream."""

import asyncio
import time
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from prometheus_client import REGISTRY

from drivetrain.common.bus import Bus, BusError, Consumer, Delivery, MemoryBus, NatsBus, connect
from drivetrain.common.bus.handling import Unprocessable, handle
from drivetrain.common.events import DeadLetter, InvalidEvent, NewerVersion, TurnFollowed, TurnScored, encode
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.settings import BusSettings
from drivetrain.common.telemetry.traces import trace


@pytest.fixture(params=["memory", "nats"])
async def bus(request: pytest.FixtureRequest) -> AsyncIterator[Bus]:
    if request.param == "memory":
        yield MemoryBus()
        return
    nats = await connect(BusSettings(url=request.getfixturevalue("nats_url")))
    yield nats
    await nats.close()


@pytest.fixture
def policy() -> str:
    """A policy of this test's own, so that tests may share one server."""
    return f"p{uuid4().hex[:12]}"


def score(policy: str, turn: str, session: str = "s1", reward: float = 1.0, hint: str = "") -> TurnScored:
    return TurnScored(
        tenant="t",
        policy=policy,
        session=session,
        turn=turn,
        n=1,
        judge="rules",
        reward=reward,
        votes=[],
        hints=[hint] if hint else [],
        at=0.0,
    )


def reader(policy: str, **options: float | int | bool) -> Consumer:
    return Consumer("SCORES", f"c-{policy}", (f"turn.scored.*.{policy}.>",), **options)  # type: ignore[arg-type]


async def store_raw(bus: Bus, stream: str, subject: str, payload: bytes) -> None:
    if isinstance(bus, MemoryBus):
        bus.store(stream, subject, payload)
    else:
        assert isinstance(bus, NatsBus)
        await bus.js.publish(subject, payload)


async def dead_letters(bus: Bus, policy: str) -> list[DeadLetter]:
    found = [stored.event for stored in await bus.last("DEAD", f"dead.*.c-{policy}")]
    return [event for event in found if isinstance(event, DeadLetter)]


async def test_a_stored_event_is_read_back_whole(bus: Bus, policy: str) -> None:
    sent = score(policy, "a", hint="Name the subject.")
    assert await bus.publish(sent) is not None
    found = await bus.last("SCORES", f"turn.scored.0.{policy}.s1.*.*.*")
    assert [stored.event for stored in found] == [sent]


async def test_a_copy_is_refused_and_the_first_one_stays(bus: Bus, policy: str) -> None:
    await bus.publish(score(policy, "a", reward=1.0))
    assert await bus.publish(score(policy, "a", reward=-1.0)) is None
    found = await bus.last("SCORES", f"turn.scored.0.{policy}.s1.*.*.*")
    assert [stored.event.reward for stored in found] == [1.0]  # type: ignore[attr-defined]


async def test_get_says_that_it_cannot_read_what_is_there(bus: Bus, policy: str) -> None:
    subject = score(policy, "a").subject()
    assert await bus.get("SCORES", subject) is None
    await store_raw(bus, "SCORES", subject, b"\x80")
    with pytest.raises(InvalidEvent):
        await bus.get("SCORES", subject)


async def test_last_lists_each_subject_once_in_stream_order(bus: Bus, policy: str) -> None:
    for turn in ("a", "b", "c"):
        await bus.publish(score(policy, turn))
    await bus.publish(score(policy, "other", session="s2"))
    found = await bus.last("SCORES", f"turn.scored.0.{policy}.s1.*.*.*")
    assert [stored.event.turn for stored in found] == ["a", "b", "c"]  # type: ignore[attr-defined]
    assert [stored.sequence for stored in found] == sorted(stored.sequence for stored in found)


async def test_nothing_stored_reads_as_nothing(bus: Bus, policy: str) -> None:
    assert await bus.last("SCORES", f"turn.scored.0.{policy}.>") == []
    assert await bus.get("SCORES", f"turn.scored.0.{policy}.s1.a.rules.1") is None


async def test_get_reads_one_subject(bus: Bus, policy: str) -> None:
    sent = score(policy, "a")
    await bus.publish(sent)
    stored = await bus.get("SCORES", sent.subject())
    assert stored is not None
    assert stored.event == sent


async def test_get_reads_the_newest_of_many_subjects(bus: Bus, policy: str) -> None:
    for turn in ("a", "c", "b"):
        await bus.publish(score(policy, turn))
    stored = await bus.get("SCORES", f"turn.scored.0.{policy}.>")
    assert stored is not None
    assert stored.event == score(policy, "b")
    assert stored.subject == score(policy, "b").subject()


async def test_a_consumer_gets_only_its_subjects(bus: Bus, policy: str) -> None:
    await bus.publish(score("x" + policy, "foreign"))
    await bus.publish(score(policy, "mine"))
    async with bus.consume(reader(policy)) as subscription:
        deliveries = await subscription.fetch(10, 2)
        assert [delivery.event.turn for delivery in deliveries] == ["mine"]  # type: ignore[attr-defined]
        assert deliveries[0].attempt == 1
        await deliveries[0].ack()


async def test_fetch_returns_at_the_first_message_not_at_its_timeout(bus: Bus, policy: str) -> None:
    async with bus.consume(reader(policy)) as subscription:
        waiting = asyncio.create_task(subscription.fetch(10, 30))
        await asyncio.sleep(0)
        await bus.publish(score(policy, "a"))
        deliveries = await asyncio.wait_for(waiting, timeout=5)
        assert len(deliveries) == 1


async def test_an_empty_fetch_ends_at_its_timeout(bus: Bus, policy: str) -> None:
    async with bus.consume(reader(policy)) as subscription:
        started = time.monotonic()
        assert list(await subscription.fetch(10, 0.2)) == []
        assert time.monotonic() - started < 5


async def test_acked_messages_do_not_come_back_and_others_do(bus: Bus, policy: str) -> None:
    await bus.publish(score(policy, "a"))
    await bus.publish(score(policy, "b"))
    async with bus.consume(reader(policy)) as subscription:
        first, second = await fetch_exactly(subscription, 2)
        await first.ack()
        await second.nak()
        (again,) = await fetch_exactly(subscription, 1)
        assert (again.event.turn, again.attempt) == ("b", 2)
        await again.ack()
    async with bus.consume(reader(policy)) as subscription:
        assert list(await subscription.fetch(10, 0.2)) == []


async def test_an_unacknowledged_message_comes_back_after_ack_wait(bus: Bus, policy: str) -> None:
    await bus.publish(score(policy, "a"))
    async with bus.consume(reader(policy, ack_wait_s=0.3)) as subscription:
        await fetch_exactly(subscription, 1)
        (again,) = await fetch_exactly(subscription, 1)
        assert again.attempt == 2
        await again.ack()


async def test_poison_ends_in_the_dead_letters_with_its_original(bus: Bus, policy: str) -> None:
    sent = score(policy, "a")
    await bus.publish(sent)
    async with bus.consume(reader(policy, max_deliver=2, ack_wait_s=0.3)) as subscription:
        for _ in range(2):
            await fetch_exactly(subscription, 1)
        letters: list[DeadLetter] = []
        deadline = time.monotonic() + 5
        while not letters and time.monotonic() < deadline:
            await subscription.fetch(1, 0.2)
            letters = await dead_letters(bus, policy)
    assert letters[0].payload == encode(sent)
    assert letters[0].subject_of == sent.subject()
    assert "2 deliveries" in letters[0].reason


async def test_an_unreadable_payload_is_dead_lettered_and_the_rest_flows(bus: Bus, policy: str) -> None:
    await store_raw(bus, "SCORES", f"turn.scored.0.{policy}.s1.bad.rules.1", b"\x81\xa1v\x01")
    await bus.publish(score(policy, "good"))
    async with bus.consume(reader(policy)) as subscription:
        (delivery,) = await fetch_exactly(subscription, 1)
        assert delivery.event.turn == "good"
        await delivery.ack()
    (letter,) = await dead_letters(bus, policy)
    assert "missing required field" in letter.reason


async def test_a_newer_schema_stops_the_consumer_and_stays_in_the_stream(bus: Bus, policy: str) -> None:
    payload = encode(score(policy, "new")).replace(b"\xa1v\x01", b"\xa1v\x02", 1)
    await store_raw(bus, "SCORES", f"turn.scored.0.{policy}.s1.new.rules.1", payload)
    async with bus.consume(reader(policy)) as subscription:
        with pytest.raises(NewerVersion, match="upgrade the service"):
            await subscription.fetch(10, 2)
    assert await dead_letters(bus, policy) == []


async def test_max_ack_pending_bounds_what_is_handed_out(bus: Bus, policy: str) -> None:
    for turn in ("a", "b", "c"):
        await bus.publish(score(policy, turn))
    async with bus.consume(reader(policy, max_ack_pending=2)) as subscription:
        held = await fetch_exactly(subscription, 2)
        assert list(await subscription.fetch(10, 0.2)) == []
        assert await subscription.pending() == 1
        await held[0].ack()
        (third,) = await fetch_exactly(subscription, 1)
        assert third.event.turn == "c"


async def test_a_consumer_that_starts_at_new_sees_only_what_comes_later(bus: Bus, policy: str) -> None:
    await bus.publish(score(policy, "old"))
    async with bus.consume(reader(policy, start_at_new=True)) as subscription:
        await bus.publish(score(policy, "new"))
        (delivery,) = await fetch_exactly(subscription, 1)
        assert delivery.event.turn == "new"


async def test_a_payload_above_the_message_limit_travels_whole(bus: Bus, policy: str) -> None:
    big = TurnFollowed(
        tenant="t",
        policy=policy,
        session="s1",
        turn="big",
        n=1,
        messages=[{"role": "tool", "content": "x" * 3_000_000}],
        before=[],
        reply={"role": "assistant", "content": "y"},
        at=0.0,
    )
    await bus.publish(big)
    consumer = Consumer("TURNS", f"c-{policy}", (f"turn.followed.*.{policy}.>",))
    async with bus.consume(consumer) as subscription:
        (delivery,) = await fetch_exactly(subscription, 1)
        assert delivery.event == big
    (stored,) = await bus.last("TURNS", f"turn.followed.0.{policy}.s1.*.*")
    assert stored.event == big


async def test_the_trace_of_the_publisher_reaches_the_consumer(bus: Bus, policy: str) -> None:
    with trace({"traceparent": "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"}):
        await bus.publish(score(policy, "a"))
    async with bus.consume(reader(policy)) as subscription:
        (delivery,) = await fetch_exactly(subscription, 1)
        assert delivery.headers["traceparent"].split("-")[1] == "ab" * 16


async def test_shards_are_part_of_the_subject_and_stable(bus: Bus, policy: str) -> None:
    bus.shards = 8
    await bus.publish(score(policy, "a", session="session-one"))
    (stored,) = await bus.last("SCORES", f"turn.scored.*.{policy}.>")
    assert stored.subject == score(policy, "a", session="session-one").subject(8)
    assert 0 <= int(stored.subject.split(".")[2]) < 8


async def test_a_handler_acks_what_it_finished_and_buries_what_it_cannot_do(bus: Bus, policy: str) -> None:
    for turn in ("fine", "hopeless"):
        await bus.publish(score(policy, turn))
    seen: list[str] = []
    async with asyncio.TaskGroup() as group:
        lifecycle = Lifecycle(group)

        async def handler(delivery: object) -> None:
            turn = delivery.event.turn  # type: ignore[attr-defined]
            seen.append(turn)
            if len(seen) == 2:
                lifecycle.stop()
            if turn == "hopeless":
                raise Unprocessable("no such turn")

        lifecycle.spawn(handle(bus, reader(policy), handler, lifecycle), "handler")
    assert sorted(seen) == ["fine", "hopeless"]
    (letter,) = await dead_letters(bus, policy)
    assert letter.reason == "no such turn"
    async with bus.consume(reader(policy)) as subscription:
        assert list(await subscription.fetch(10, 0.2)) == []


class Barrier:
    """A gate that a test opens and shuts."""

    def __init__(self, shut: bool) -> None:
        self.open = asyncio.Event()
        if not shut:
            self.open.set()

    @property
    def shut(self) -> bool:
        return not self.open.is_set()

    async def opened(self) -> None:
        await self.open.wait()


async def test_nothing_is_pulled_while_a_gate_is_shut(bus: Bus, policy: str) -> None:
    for turn in ("a", "b", "c"):
        await bus.publish(score(policy, turn))
    gate, attempts, done = Barrier(shut=True), list[int](), asyncio.Event()
    async with asyncio.TaskGroup() as group, bus.consume(reader(policy)) as watched:
        lifecycle = Lifecycle(group)

        async def handler(delivery: object) -> None:
            attempts.append(delivery.attempt)  # type: ignore[attr-defined]
            if len(attempts) == 3:
                done.set()

        lifecycle.spawn(handle(bus, reader(policy, ack_wait_s=0.3), handler, lifecycle, gate=gate), "handler")
        await asyncio.sleep(0.5)  # longer than ack_wait: what was pulled would come again
        assert (attempts, await watched.pending()) == ([], 3)
        gate.open.set()
        await asyncio.wait_for(done.wait(), 5)
        lifecycle.stop()
    assert attempts == [1, 1, 1]


async def test_what_an_earlier_fetch_asked_for_comes_after_a_gate_shut(bus: Bus, policy: str) -> None:
    async with bus.consume(reader(policy, ack_wait_s=1)) as subscription:
        waiting = asyncio.create_task(subscription.fetch(2, 2))
        await asyncio.sleep(0)
        await bus.publish(score(policy, "a"))
        (first,) = await waiting
        await first.ack()
        await bus.publish(score(policy, "b"))
        rest = list(await subscription.rest())
        assert [delivery.attempt for delivery in rest] == ([] if isinstance(bus, MemoryBus) else [1])
        assert list(await subscription.rest()) == []
        for delivery in rest:
            await delivery.ack()


async def test_a_shut_gate_does_not_keep_a_service_from_stopping(bus: Bus, policy: str) -> None:
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        lifecycle = Lifecycle(group)
        work = handle(bus, reader(policy), lambda delivery: delivery.ack(), lifecycle, gate=Barrier(shut=True))
        lifecycle.spawn(work, "handler")
        await asyncio.sleep(0.05)
        lifecycle.stop()


async def replayed(bus: Bus, subject: str, since: float = 0.0) -> list[str]:
    found = [stored async for stored in bus.replay("SCORES", subject, since)]
    assert [stored.sequence for stored in found] == sorted(stored.sequence for stored in found)
    return [stored.event.turn for stored in found]  # type: ignore[attr-defined]


async def test_a_replay_reads_every_event_in_stream_order_and_only_its_subjects(bus: Bus, policy: str) -> None:
    turns = [f"{number:04d}" for number in range(600)]
    for turn in turns:
        await bus.publish(score(policy, turn, session=f"s{int(turn) % 2}"))
        await bus.publish(score("x" + policy, turn))
    assert await replayed(bus, f"turn.scored.*.{policy}.>") == turns
    assert await replayed(bus, f"turn.scored.*.{policy}.s1.>") == turns[1::2]
    assert await replayed(bus, f"turn.scored.*.{policy}.s2.>") == []


async def test_a_replay_begins_at_its_time_and_ends_where_the_stream_did(bus: Bus, policy: str) -> None:
    await bus.publish(score(policy, "old"))
    between = time.time()
    await bus.publish(score(policy, "new"))
    reading = bus.replay("SCORES", f"turn.scored.*.{policy}.>", between)
    first = await anext(reading)
    await bus.publish(score(policy, "later"))
    assert [first.event.turn, *[s.event.turn async for s in reading]] == ["new"]  # type: ignore[attr-defined]
    assert await replayed(bus, f"turn.scored.*.{policy}.>", time.time() + 60) == []


async def test_a_replay_leaves_out_what_cannot_be_read(bus: Bus, policy: str) -> None:
    await store_raw(bus, "SCORES", f"turn.scored.0.{policy}.s1.bad.rules.1", b"\x81\xa1v\x01")
    newer = encode(score(policy, "new")).replace(b"\xa1v\x01", b"\xa1v\x02", 1)
    await store_raw(bus, "SCORES", f"turn.scored.0.{policy}.s1.new.rules.1", newer)
    await bus.publish(score(policy, "good"))
    assert await replayed(bus, f"turn.scored.*.{policy}.>") == ["good"]


async def test_an_unreachable_server_is_named_with_the_remedy() -> None:
    with pytest.raises(BusError, match=r"no NATS server answers at nats://127.0.0.1:9: start one or set bus.url"):
        await connect(BusSettings(url="nats://127.0.0.1:9"), timeout_s=0.3)


async def fetch_exactly(subscription: object, count: int) -> list:  # type: ignore[type-arg]
    """Exactly `count` deliveries, over as many fetches as it takes."""
    found: list = []  # type: ignore[type-arg]
    deadline = time.monotonic() + 5
    while len(found) < count and time.monotonic() < deadline:
        found.extend(await subscription.fetch(count - len(found), 1))  # type: ignore[attr-defined]
    assert len(found) == count
    return found


async def test_the_durable_consumers_of_a_stream_are_known_by_name(bus: Bus, policy: str) -> None:
    assert f"c-{policy}" not in await bus.durables("SCORES")
    async with bus.consume(reader(policy)):
        assert f"c-{policy}" in await bus.durables("SCORES")
        assert f"c-{policy}" not in await bus.durables("DEAD")


async def test_reads_at_the_same_time_each_get_their_own_and_what_is_broken_is_left_out(bus: Bus, policy: str) -> None:
    for session in ("s1", "s2", "s3"):
        await bus.publish(score(policy, "b", session))
        await bus.publish(score(policy, "a", session))
    await store_raw(bus, "SCORES", f"turn.scored.0.{policy}.s2.bad.rules.1", b"\x81\xa1v\x01")
    of = f"turn.scored.0.{policy}"
    asked = [f"{of}.s1.*.*.*", f"{of}.s2.>", f"{of}.s2.a.rules.1", f"{of}.nobody.>", f"{of}.>", f"{of}.s1.*.*.*"]
    found = await asyncio.gather(*(bus.last("SCORES", subject) for subject in asked))
    turns = [[(s.event.session, s.event.turn) for s in each if isinstance(s.event, TurnScored)] for each in found]
    both = [[(session, turn) for turn in "ba"] for session in ("s1", "s2", "s3")]
    assert turns == [both[0], both[1], [("s2", "a")], [], [*both[0], *both[1], *both[2]], both[0]]
    assert found[0] is not found[5]


async def test_a_session_of_any_length_is_read_whole_and_so_is_who_asks_beside_it(bus: Bus, policy: str) -> None:
    for start in range(0, 1100, 220):
        await asyncio.gather(*(bus.publish(score(policy, f"t{start + n}", "long")) for n in range(220)))
    await bus.publish(score(policy, "a", "short"))
    subjects = [f"turn.scored.0.{policy}.{session}.>" for session in ("long", "short")]
    many, few = await asyncio.gather(*(bus.last("SCORES", subject) for subject in subjects))
    assert len({stored.subject for stored in many}) == len(many) == 1100
    assert [stored.sequence for stored in many] == sorted(stored.sequence for stored in many)
    assert len(few) == 1


async def test_how_many_messages_wait_for_a_consumer_is_a_metric(
    bus: Bus, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drivetrain.common.bus.handling.LAG_S", 0.02)
    for turn in "abc":
        await bus.publish(score(policy, turn))
    release = asyncio.Event()

    async def waits(delivery: Delivery) -> None:
        await release.wait()

    def pending() -> float | None:
        return REGISTRY.get_sample_value("drivetrain_bus_pending_messages", {"consumer": f"c-{policy}"})

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        life = Lifecycle(group)
        group.create_task(handle(bus, reader(policy), waits, life, concurrency=1))
        while pending() != 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        release.set()
        while pending() != 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        life.stop()
