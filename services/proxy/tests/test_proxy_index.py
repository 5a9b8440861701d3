"""The session index: what a turn costs in Redis, what is left when Redis or a replica is lost, which turns go idle."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from drivetrain.common.bus import BusError, MemoryBus
from drivetrain.common.events import Event, Place, Sampling, TurnFollowed, TurnRecorded
from drivetrain.common.identity import new_id
from drivetrain.common.tokens import pack_ids, pack_logprobs
from drivetrain.proxy.recording.capture import followed, known_turn
from drivetrain.proxy.sessions import Closer, History, Index, Rebuilder, Sessions, connect
from drivetrain.proxy.turns import Past

IDLE_S = 100.0


def recorded(number: int, parent: TurnRecorded | None = None, **changes: Any) -> TurnRecorded:
    """The `number`-th turn of a conversation: ten new prompt tokens, five response tokens, one message."""
    fields: dict[str, Any] = {
        "tenant": "a",
        "policy": "p",
        "session": parent.session if parent else new_id(),
        "turn": new_id(),
        "parent": parent.turn if parent else None,
        "prompt_ids": pack_ids(range(number * 100, number * 100 + 10)),
        "response_ids": pack_ids(range(number * 100 + 10, number * 100 + 15)),
        "logprobs": pack_logprobs([-1.0] * 5),
        "versions": [],
        "sampling": Sampling(),
        "finish": "stop",
        "exact": True,
        "messages": [{"role": "user", "content": f"question {number:03d}"}],
        "reply": {"role": "assistant", "content": f"answer {number:03d}"},
        "place": Place(line=new_id(), asked=new_id(), depth=2 * number, tools=""),
        "started_at": float(number),
        "finished_at": float(number),
    }
    return TurnRecorded(**(fields | changes))


def conversation(turns: int) -> list[TurnRecorded]:
    result = [recorded(1)]
    while len(result) < turns:
        result.append(recorded(len(result) + 1, result[-1]))
    return result


def tokens(turns: list[TurnRecorded]) -> list[int]:
    numbers = range(1, len(turns) + 1)
    return [token for number in numbers for token in range(number * 100, number * 100 + 15)]


def line(turn: TurnRecorded) -> str:
    assert turn.place is not None
    return turn.place.line


def whole(past: Past | None) -> list[int]:
    assert past is not None
    return past.prompt + past.response


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Replica:
    """What one proxy process has of sessions. `recorded` is what it says of turns that went idle."""

    redis: Redis
    bus: MemoryBus
    index: Index
    sessions: Sessions
    clock: Clock
    said: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rebuilder = Rebuilder(self.sessions, self.index, self.bus, idle_s=IDLE_S, keep_s=1e9, clock=self.clock)
        self.closer = Closer(self.sessions, self.index, self.say, every_s=1, clock=self.clock)

    def say(self, event: Event) -> bool:
        self.said.append(event)
        return True

    async def serve(self, turn: TurnRecorded, *, publish: bool = True) -> None:
        if publish:
            await self.bus.publish(turn)
        await self.sessions.remember(known_turn(turn))

    @property
    def idle(self) -> list[str]:
        assert all(isinstance(event, TurnFollowed) and event.kind == "idle" for event in self.said)
        return [event.turn for event in self.said if isinstance(event, TurnFollowed)]


StartReplica = Callable[..., Replica]


@pytest.fixture
async def start(valkey_url: str) -> AsyncIterator[StartReplica]:
    """Start another replica of the same deployment: `start(bus)`."""
    opened, prefix, clock = [], f"test-{new_id()}:", Clock()

    def replica(bus: MemoryBus, url: str = valkey_url, cache_bytes: int = 1 << 24) -> Replica:
        redis = connect(url, 10)
        opened.append(redis)
        index = Index(redis, keep_s=600, prefix=prefix)
        return Replica(redis, bus, index, Sessions(index, History(bus), cache_bytes=cache_bytes, idle_s=IDLE_S), clock)

    yield replica
    for redis in opened:
        await redis.aclose()


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus()


async def lose(replica: Replica) -> None:
    """Redis comes back empty."""
    keys = [key async for key in replica.redis.scan_iter(match=replica.index._prefix + "*")]
    if keys:
        await replica.redis.delete(*keys)


@asynccontextmanager
async def away(replica: Replica) -> AsyncIterator[None]:
    """Redis does not answer."""
    replica.index._ask_again_at = float("inf")
    yield
    replica.index._ask_again_at = 0.0


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
    one.say = lambda event: False
    one.closer._record = one.say
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
