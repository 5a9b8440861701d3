"""What one proxy replica has of sessions, without its HTTP side: for tests of the index, its loss, and idle turns."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis

from drivetrain.common.bus import Bus
from drivetrain.common.events import Event, Place, Sampling, TurnFollowed, TurnRecorded
from drivetrain.common.identity import new_id
from drivetrain.common.tokens import pack_ids, pack_logprobs
from drivetrain.proxy.recording.capture import known_turn
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
    bus: Bus
    index: Index
    sessions: Sessions
    clock: Clock
    said: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rebuilder = Rebuilder(self.sessions, self.index, self.bus, idle_s=IDLE_S, keep_s=1e9, clock=self.clock)
        self.closer = Closer(self.sessions, self.index, self.say, every_s=1, clock=self.clock)

    async def say(self, event: Event) -> bool:
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


@asynccontextmanager
async def starting(redis_url: str) -> AsyncIterator[StartReplica]:
    """What starts replicas of one deployment. They share a clock."""
    opened, prefix, clock = [], f"test-{new_id()}:", Clock()

    def replica(bus: Bus, url: str = redis_url, cache_bytes: int = 1 << 24) -> Replica:
        redis = connect(url, 10)
        opened.append(redis)
        index = Index(redis, keep_s=600, prefix=prefix)
        return Replica(redis, bus, index, Sessions(index, History(bus), cache_bytes=cache_bytes, idle_s=IDLE_S), clock)

    yield replica
    for redis in opened:
        await redis.aclose()


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
