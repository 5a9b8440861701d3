"""The judge model's endpoint when it misbehaves: slow, down, refusing, endless; and what it is asked at a time."""

import asyncio
from typing import Any

import httpx
import pytest
from aiohttp import web

from drivetrain.judge.asking.asker import Asker
from drivetrain.judge.endpoint import PROBE, Endpoint
from drivetrain.judge.settings import ModelSettings
from drivetrain.judge.sources.base import Case, NoScore
from drivetrain.judge.sources.model import ModelJudge
from tests.judge_model_server import CASE, asking, ballot, server


async def test_a_second_round_can_succeed() -> None:
    async def answer(body: dict[str, Any], n: int) -> web.Response:
        return web.Response(text="garbage") if n < 3 else ballot(1)

    async with server(answer, rounds=2) as (judge, _):
        assert [vote.value for vote in (await judge.judge(CASE)).votes] == [1, 1, 1]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_endpoint_that_recovers_is_tried_again(status: int) -> None:
    async def answer(body: dict[str, Any], n: int) -> web.Response:
        return web.Response(status=status) if n < 3 else ballot(-1)

    async with server(answer, attempts=3) as (judge, _):
        assert len((await judge.judge(CASE)).votes) == 3


async def test_a_refusal_is_not_tried_again() -> None:
    async def answer(body: dict[str, Any], n: int) -> web.Response:
        return web.Response(status=401)

    async with server(answer, attempts=5) as (judge, seen):
        with pytest.raises(NoScore):
            await judge.judge(CASE)
    assert len(seen) == 3


async def test_a_slow_vote_is_no_vote() -> None:
    stuck = asyncio.Event()

    async def answer(body: dict[str, Any], n: int) -> web.Response:
        if body["seed"] == 2:
            await stuck.wait()
        return ballot(-1)

    async with server(answer, timeout_s=0.2, attempts=1) as (judge, _):
        opinion = await judge.judge(CASE)
        stuck.set()
    assert [vote.value for vote in opinion.votes] == [-1, -1]


async def test_an_answer_that_stops_in_the_middle_is_no_vote() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"choices": [{"mess')
        await writer.drain()
        writer.close()

    broken = await asyncio.start_server(cut, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{broken.sockets[0].getsockname()[1]}/v1"
    settings = ModelSettings(
        enabled=True, url=url, model="m", attempts=2, retry_wait_s=0, rounds=1, breaker_failures=100
    )
    async with broken, httpx.AsyncClient() as client:
        with pytest.raises(NoScore):
            await ModelJudge(Asker(settings, Endpoint(settings, client))).judge(CASE)


async def test_the_same_question_is_asked_once() -> None:
    async def answer(body: dict[str, Any], n: int) -> web.Response:
        return ballot(-1)

    other = Case(CASE.before, CASE.reply, ({"role": "user", "content": "Thanks!"},))
    async with server(answer, cache_size=1) as (judge, seen):
        first, again = [await judge.judge(CASE) for _ in range(2)]
        assert (first, len(seen)) == (again, 3)
        await judge.judge(other)
        await judge.judge(CASE)  # forgotten: there was room for one
    assert len(seen) == 9


async def test_a_turn_waits_for_an_endpoint_that_is_down_and_is_then_judged() -> None:
    down = [True]

    async def answer(body: dict[str, Any], n: int) -> web.StreamResponse:
        if body["messages"] == PROBE and n > 8:
            down.clear()
        return web.Response(status=429) if down else ballot(-1)

    async with server(answer, breaker_failures=3, breaker_wait_s=0.001) as (judge, seen):
        opinion = await judge.judge(CASE)
    assert [vote.value for vote in opinion.votes] == [-1, -1, -1]
    assert len(seen) <= 9  # the wait was the probes', not the turn's


async def test_a_turn_that_alone_makes_the_endpoint_fail_does_not_wait_for_ever() -> None:
    async def answer(body: dict[str, Any], n: int) -> web.StreamResponse:
        return ballot(0) if body["messages"] == PROBE else web.Response(status=500)

    async with server(answer, breaker_failures=3, rounds=2) as (judge, _):
        with pytest.raises(NoScore):
            await judge.judge(CASE)


async def test_an_answer_without_end_is_cut_off() -> None:
    async def answer(body: dict[str, Any], n: int) -> web.StreamResponse:
        return web.Response(body=b" " * (3 << 20))

    async with server(answer) as (judge, _):
        with pytest.raises(NoScore):
            await judge.judge(CASE)


async def test_how_long_to_wait_is_what_the_endpoint_says() -> None:
    async def answer(body: dict[str, Any], n: int) -> web.StreamResponse:
        return web.Response(status=429, headers={"Retry-After": "1"}) if n == 0 else ballot(1)

    async with server(answer, votes=1, retry_wait_s=0.0) as (judge, _):
        started = asyncio.get_running_loop().time()
        await judge.judge(CASE)
    assert asyncio.get_running_loop().time() - started >= 1


@pytest.mark.parametrize(("form", "sent"), [("json_object", {"type": "json_object"}), ("text", None)])
async def test_an_endpoint_without_schemas_is_asked_for_what_it_has(form: str, sent: object) -> None:
    async def answer(body: dict[str, Any], n: int) -> web.Response:
        return ballot(1)

    async with server(answer, format=form) as (judge, seen):
        await judge.judge(CASE)
    assert seen[0].get("response_format") == sent


async def test_calls_at_a_time_are_limited() -> None:
    running, most = 0, 0

    async def answer(body: dict[str, Any], n: int) -> web.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return ballot(1)

    async with server(answer, concurrency=2, votes=5) as (judge, seen):
        await asyncio.gather(*(judge.judge(asking(str(i))) for i in range(4)))
    assert len(seen) == 20
    assert most <= 2
