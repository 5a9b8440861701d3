"""Rate limits: a minute's worth at once, then as it refills; one count over all replicas, also without Redis."""

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from drivetrain.common.identity import new_id
from drivetrain.proxy.access.principal import Principal
from drivetrain.proxy.access.rates import Rates
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.sessions import connect

NOWHERE = "redis://127.0.0.1:1/0"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def key(**limits: int) -> Principal:
    return Principal(key_id=new_id(), **limits)  # type: ignore[arg-type]


async def refusal(rates: Rates, principal: Principal) -> Refused | None:
    try:
        await rates.admit(principal)
    except Refused as error:
        return error
    return None


@pytest.fixture
async def redis(valkey_url: str) -> AsyncIterator[Redis]:
    client = connect(valkey_url, 0.5)
    yield client
    await client.aclose()


@pytest.fixture
async def away() -> AsyncIterator[Redis]:
    client = connect(NOWHERE, 0.5)
    yield client
    await client.aclose()


async def test_replicas_share_one_count(redis: Redis) -> None:
    one, other, principal = Rates(redis), Rates(redis), key(requests_per_minute=3)
    assert [await refusal(rates, principal) for rates in (one, other, one)] == [None, None, None]
    refused = await refusal(other, principal)
    assert refused is not None
    assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
    assert refused.retry_after is not None
    assert 15 <= refused.retry_after <= 20  # a third of a minute, less what the test took
    assert await refusal(other, key(requests_per_minute=3)) is None


async def test_tokens_are_charged_when_they_are_known(redis: Redis) -> None:
    one, other, principal = Rates(redis), Rates(redis), key(tokens_per_minute=6000)
    assert await refusal(one, principal) is None
    await one.charge(principal, 9000)
    refused = await refusal(other, principal)
    assert refused is not None
    assert refused.retry_after is not None
    assert 25 <= refused.retry_after <= 30  # 3,000 too many at 100 a second
    assert "6000 tokens a minute" in refused.message


async def test_a_refused_request_costs_nothing(redis: Redis) -> None:
    rates, principal = Rates(redis), key(requests_per_minute=10, tokens_per_minute=60)
    await rates.charge(principal, 120)
    for _ in range(20):
        refused = await refusal(rates, principal)
        assert refused is not None
        assert "tokens" in refused.message


async def test_without_a_limit_redis_is_not_asked(away: Redis) -> None:
    rates = Rates(away)
    await rates.admit(key())
    await rates.charge(key(requests_per_minute=1), 100)


async def test_without_redis_a_replica_counts_alone(away: Redis) -> None:
    clock = Clock()
    rates, principal = Rates(away, clock=clock), key(requests_per_minute=2)
    assert [await refusal(rates, principal) for _ in range(2)] == [None, None]
    refused = await refusal(rates, principal)
    assert refused is not None
    assert refused.retry_after == 30
    clock.now += 29.9
    assert await refusal(rates, principal) is not None
    clock.now += 0.2
    assert await refusal(rates, principal) is None


async def test_what_redis_counted_still_counts_when_it_goes(redis: Redis, away: Redis) -> None:
    rates, principal = Rates(redis, clock=Clock()), key(requests_per_minute=2)
    assert [await refusal(rates, principal) for _ in range(2)] == [None, None]
    rates._script.registered_client = away
    assert await refusal(rates, principal) is not None
