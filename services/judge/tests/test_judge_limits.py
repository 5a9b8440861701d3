"""The budget, the cache and the breaker, by a clock that the tests move."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.judge.limits.breaker import Breaker
from drivetrain.judge.limits.budget import Budget, Window
from drivetrain.judge.limits.cache import LocalCache


def test_a_window_makes_wait_until_enough_is_forgotten() -> None:
    window = Window(100, 60.0)
    assert window.wait(0.0, 80) == 0
    window.spend(0.0, 80)
    assert window.wait(0.5, 20) == 0
    assert window.wait(0.5, 21) == pytest.approx(60.5)  # a slot of one second, a minute after its end
    assert window.wait(61.0, 100) == 0


def test_a_call_larger_than_the_budget_waits_for_an_empty_window_and_no_longer() -> None:
    window = Window(100, 60.0)
    assert window.wait(0.0, 500) == 0
    window.spend(0.0, 500)
    assert 60 <= window.wait(0.0, 500) <= 61
    assert window.wait(61.0, 500) == 0


def test_what_was_reserved_too_much_is_given_back() -> None:
    window = Window(100, 60.0)
    window.spend(0.0, 90)
    window.spend(0.2, -60)
    assert window.wait(0.3, 70) == 0


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 20), st.integers(1, 100)), max_size=40))
def test_no_window_ever_holds_more_than_the_limit(calls: list[tuple[float, int]]) -> None:
    window, now, spent = Window(100, 60.0), 0.0, []
    for pause, tokens in calls:
        now += pause
        for _ in range(200):
            if not (wait := window.wait(now, tokens)):
                break
            now += wait
        window.spend(now, tokens)
        spent.append((now, tokens))
    for start, _ in spent:
        assert sum(tokens for at, tokens in spent if start <= at < start + 60) <= 100


async def test_callers_wait_in_line_for_their_tokens() -> None:
    now = [0.0]
    budget = Budget(1000, 5000, clock=lambda: now[0])
    await budget.reserve(600)
    waiting = asyncio.create_task(budget.reserve(600))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    waiting.cancel()
    now[0] = 61.0
    async with asyncio.timeout(1):
        await budget.reserve(600)


async def test_without_limits_nobody_waits() -> None:
    async with asyncio.timeout(1):
        for _ in range(100):
            await Budget(None, None).reserve(10**9)


async def test_the_cache_forgets_what_was_asked_for_least_recently() -> None:
    cache = LocalCache(2)
    for key in (b"a", b"b"):
        await cache.put(key, b"1")
    assert await cache.get(b"a") == b"1"
    await cache.put(b"c", b"1")
    assert [await cache.get(key) for key in (b"a", b"b", b"c")] == [b"1", None, b"1"]


async def test_a_cache_of_no_size_keeps_nothing() -> None:
    cache = LocalCache(0)
    await cache.put(b"a", b"1")
    assert await cache.get(b"a") is None


async def test_the_breaker_shuts_after_failures_in_a_row_and_opens_when_a_probe_succeeds() -> None:
    answers, probes = iter([False, False, True]), []

    async def probe() -> bool:
        probes.append(1)
        return next(answers)

    breaker = Breaker(2, 0.001, probe)
    for outcome in (breaker.failed, lambda _: breaker.succeeded(), breaker.failed):
        outcome("status 503")
    assert not breaker.shut
    breaker.failed("status 503")
    assert breaker.shut
    async with asyncio.timeout(5):
        await asyncio.gather(*(breaker.opened() for _ in range(20)))
    assert (breaker.shut, len(probes), breaker.outages) == (False, 3, 2)


async def test_a_waiter_that_goes_away_leaves_the_probing_to_the_next() -> None:
    asked, answer = asyncio.Event(), [False]

    async def probe() -> bool:
        asked.set()
        return answer[0]

    breaker = Breaker(1, 0.001, probe)
    breaker.failed("gone")
    first = asyncio.create_task(breaker.opened())
    await asked.wait()
    second = asyncio.create_task(breaker.opened())
    await asyncio.sleep(0)
    first.cancel()
    answer[0] = True
    async with asyncio.timeout(5):
        await second
    assert not breaker.shut
