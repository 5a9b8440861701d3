"""What many requests ask Redis in one moment goes there as one, and each gets its own answer."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as NotThere
from redis.exceptions import RedisError

from drivetrain.common.identity import new_id
from drivetrain.proxy.sessions.index import connect
from drivetrain.proxy.sessions.together import Together


@pytest.fixture
async def redis(valkey_url: str) -> AsyncIterator[Redis]:
    client = connect(valkey_url, 0.5)
    yield client
    await client.aclose()


async def test_each_gets_its_own_answers_and_all_go_at_once(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    together, key, pipelines = Together(redis), f"test-{new_id()}", []
    pipeline = redis.pipeline
    monkeypatch.setattr(redis, "pipeline", lambda **options: pipelines.append(1) or pipeline(**options))
    await together.ask(("SET", key, "1"))
    asks = [together.ask(("GET", key)), together.ask(("EXISTS", key), ("STRLEN", key)), together.ask()]
    assert await asyncio.gather(*asks) == [[b"1"], [1, 1], []]
    assert len(pipelines) == 2


async def test_a_command_that_fails_fails_for_the_one_who_asked(redis: Redis) -> None:
    together, key = Together(redis), f"test-{new_id()}"
    one, wrong, two = (
        asyncio.ensure_future(together.ask(command))
        for command in (("SET", key, "x"), ("SADD", key, "1"), ("GET", key))
    )
    with pytest.raises(RedisError, match="WRONGTYPE"):
        await wrong
    assert (await one, await two) == ([True], [b"x"])


async def test_one_who_leaves_takes_no_answer_from_others(redis: Redis) -> None:
    together, key = Together(redis), f"test-{new_id()}"
    leaving, staying = (asyncio.ensure_future(together.ask(("EXISTS", key))) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == [0]


async def test_without_redis_everyone_learns_of_it() -> None:
    away = connect("redis://127.0.0.1:1/0", 0.2)
    together = Together(away)
    failed = await asyncio.gather(*(together.ask(("GET", "x")) for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in failed] == [NotThere] * 3
    await away.aclose()
