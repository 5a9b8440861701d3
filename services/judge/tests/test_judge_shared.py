"""One budget and one cache for all replicas, in a real Valkey; and what holds while it is away."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from drivetrain.judge.asking.asker import Asker
from drivetrain.judge.limits.budget import SLOTS, Window
from drivetrain.judge.limits.shared import _RESERVE, PREFIX, Shared, SharedBudget, SharedCache
from drivetrain.judge.sources.model import ModelJudge
from tests.judge_model_server import CASE, asked
from tests.servers import free_port

NAMES = itertools.count()


@pytest.fixture
async def redis(valkey_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(valkey_url) as client:
        yield client


@pytest.fixture
async def gone() -> AsyncIterator[Redis]:
    """A Redis that nobody serves."""
    async with Redis.from_url(f"redis://127.0.0.1:{free_port()}/0", retry=Retry(NoBackoff(), 0)) as client:
        yield client


def name() -> str:
    return f"model-{next(NAMES)}"


async def spent(redis: Redis, model: str, seconds: int = 60) -> int:
    return sum(int(tokens) for tokens in (await redis.hgetall(f"{PREFIX}budget:{{{model}}}:{seconds}")).values())


async def reserves(budget: SharedBudget, tokens: int) -> bool:
    """Whether so many tokens can be had at once."""
    try:
        async with asyncio.timeout(0.2):
            await budget.reserve(tokens)
    except TimeoutError:
        return False
    return True


async def test_replicas_share_what_is_left_of_a_minute(redis: Redis) -> None:
    model = name()
    first, second = (SharedBudget(Shared(redis), model, 1000, None) for _ in range(2))
    assert await reserves(first, 600)
    assert not await reserves(second, 600)
    assert await reserves(second, 400)
    assert await spent(redis, model) == 1000


async def test_what_does_not_fit_one_window_is_counted_in_none(redis: Redis) -> None:
    model = name()
    budget = SharedBudget(Shared(redis), model, 5000, 1000)
    assert await reserves(budget, 900)
    assert not await reserves(budget, 200)
    assert [await spent(redis, model, seconds) for seconds in (60, 86_400)] == [900, 900]


async def test_what_was_reserved_too_much_is_given_back_to_all(redis: Redis) -> None:
    model = name()
    first, second = (SharedBudget(Shared(redis), model, 1000, None) for _ in range(2))
    await first.reserve(1000)
    await first.spend(-700)
    assert await reserves(second, 700)
    await second.spend(5)  # a call may cost more than was thought, and it has been made
    assert await spent(redis, model) == 1005


async def test_no_race_of_replicas_spends_more_than_there_is(redis: Redis) -> None:
    model = name()
    budgets = [SharedBudget(Shared(redis), model, 1000, None) for _ in range(8)]
    sizes = [tokens for _ in budgets for tokens in (90, 60)]  # 1200 in all
    got = await asyncio.gather(*(reserves(budget, tokens) for budget, tokens in zip(budgets * 2, sizes, strict=True)))
    had = sum(tokens for tokens, granted in zip(sizes, got, strict=True) if granted)
    assert 910 < had == await spent(redis, model) <= 1000


async def test_windows_slide_as_those_of_one_process_do(redis: Redis) -> None:
    """The script says how long to wait, to the millisecond what `Window` says of the same slots."""
    key = f"{PREFIX}budget:{{{name()}}}:60"
    seconds, micros = await redis.time()
    now = seconds + micros / 1e6
    window = Window(1000, 60.0)
    for ago, tokens in ((70, 500), (50, 300), (30, 400), (5, 200)):
        window.spend(now - ago, tokens)
        await redis.hset(key, str(int((now - ago) // 1)), tokens)
    waiting = await redis.eval(_RESERVE, 1, key, 250, SLOTS, 1000, 60)
    assert waiting / 1000 == pytest.approx(window.wait(now, 250), abs=0.5)
    assert len(await redis.hgetall(key)) == 3  # what is over is cleared away
    assert await redis.eval(_RESERVE, 1, key, 100, SLOTS, 1000, 60) == 0


async def test_a_replica_that_waits_goes_on_when_there_is_room_again(redis: Redis) -> None:
    model = name()
    full, waiting = (SharedBudget(Shared(redis), model, 1000, None) for _ in range(2))
    await full.reserve(1000)
    reserving = asyncio.create_task(waiting.reserve(10))
    await asyncio.sleep(0.05)
    assert not reserving.done()
    reserving.cancel()
    await redis.delete(f"{PREFIX}budget:{{{model}}}:60")  # lost: it starts anew
    assert await reserves(waiting, 10)


async def test_while_redis_is_away_each_replica_keeps_to_the_budget_by_itself(gone: Redis) -> None:
    model = name()
    budget = SharedBudget(Shared(gone), model, 1000, None)
    assert await reserves(budget, 600)
    assert not await reserves(budget, 600)
    await budget.spend(-600)
    assert await reserves(budget, 600)


async def test_what_was_spent_before_redis_went_away_still_counts(redis: Redis, gone: Redis) -> None:
    shared = Shared(redis)
    budget = SharedBudget(shared, name(), 1000, None)
    assert await reserves(budget, 600)
    shared.redis = gone
    assert not await reserves(budget, 600)


async def test_without_limits_redis_is_not_asked(gone: Redis) -> None:
    budget = SharedBudget(Shared(gone), name(), None, None)
    assert await reserves(budget, 10**9)


async def test_an_answer_is_known_to_every_replica(redis: Redis) -> None:
    first, second = (SharedCache(Shared(redis), size, 60) for size in (0, 8))
    key = name().encode()
    assert await second.get(key) is None
    await first.put(key, b"[]")
    assert [await cache.get(key) for cache in (first, second)] == [b"[]", b"[]"]
    assert 0 < await redis.ttl(f"{PREFIX}answers:{key.hex()}") <= 60


async def test_while_redis_is_away_a_replica_remembers_by_itself(gone: Redis) -> None:
    cache = SharedCache(Shared(gone), 8, 60)
    await cache.put(b"k", b"v")
    assert (await cache.get(b"k"), await cache.get(b"other")) == (b"v", None)


async def test_what_one_replica_was_answered_no_other_asks(redis: Redis) -> None:
    model = name()

    def say(body: object) -> str:
        return '{"vote": -1, "evidence": "a list", "hint": null}'

    async with asked(say, model=model) as (one, first), asked(say, model=model) as (two, second):
        caches = [SharedCache(Shared(redis), 8, 60) for _ in range(2)]
        replicas = [Asker(a.settings, a.endpoint, cache) for a, cache in zip((one, two), caches, strict=True)]
        opinions = [await ModelJudge(replica).judge(CASE) for replica in replicas]
    assert opinions[0] == opinions[1]
    assert (len(first), len(second)) == (3, 0)
