"""Engines fail in every way; the caller is told the truth, and what was sampled is kept and typed."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import openai
import pytest
from openai import AsyncOpenAI

from drivetrain.common.telemetry.admin import listen
from drivetrain.common.tokens import unpack_ids
from drivetrain.proxy.engines.vllm import Vllm

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}


def body(**more: Any) -> dict[str, Any]:
    return {"model": "default", "messages": [QUESTION], **more}


async def post(proxy: Any, **more: Any) -> httpx.Response:
    async with httpx.AsyncClient() as http:
        return await http.post(proxy.url + "/v1/chat/completions", json=body(**more), timeout=20)


def closed_url() -> str:
    """A URL on which nobody listens."""
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    listener.close()
    return f"http://127.0.0.1:{port}"


async def test_another_replica_answers_when_one_is_down(start_proxy: Any, engine: Any, encode: Encode) -> None:
    for _ in range(6):
        engine.say(encode("Paris."))
    async with start_proxy([closed_url(), engine.url]) as proxy:
        answers = [await post(proxy) for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 6
        assert {turn.replica for turn in await proxy.recorded()} == {engine.url}


async def test_a_replica_that_dies_before_the_first_byte_is_replaced(
    start_proxy: Any, engine: Any, encode: Encode
) -> None:
    # The one replica is listed under two addresses: whichever is asked first dies.
    engine.say(encode("Lyon."), die_after=0)
    engine.say(encode("Paris."))
    async with start_proxy([engine.url, engine.url.replace("127.0.0.1", "localhost")]) as proxy:
        answer = await post(proxy)
        assert answer.json()["choices"][0]["message"]["content"] == "Paris."
        assert [turn.finish for turn in await proxy.recorded()] == ["stop"]


async def test_no_replica_is_a_503_and_nothing_is_recorded(start_proxy: Any) -> None:
    async with start_proxy([closed_url()]) as proxy:
        answer = await post(proxy)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "engine_unavailable"
        assert await proxy.events() == []


async def test_what_the_engine_refuses_is_passed_on_in_its_words(proxy: Any, engine: Any) -> None:
    engine.say([], status=400)
    answer = await post(proxy)
    assert answer.status_code == 400
    assert "the stub refuses" in answer.json()["error"]["message"]


async def test_an_engine_that_fails_inside_is_tried_elsewhere_first(
    start_proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say([], status=500)
    engine.say(encode("Paris."))
    async with start_proxy([engine.url, engine.url.replace("127.0.0.1", "localhost")]) as proxy:
        assert (await post(proxy)).status_code == 200


async def test_death_in_mid_stream_is_told_and_the_turn_so_far_is_kept(proxy: Any, engine: Any, encode: Encode) -> None:
    sampled = engine.say(encode("Paris is the capital."), die_after=3)
    async with httpx.AsyncClient() as http:
        lines = (await http.post(proxy.url + "/v1/chat/completions", json=body(stream=True))).text.split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line]
    assert "the reply was cut" in chunks[-1]["error"]["message"]
    shown = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks[:-1])
    (turn,) = await proxy.recorded()
    assert turn.finish == "error"
    assert not turn.exact
    kept = unpack_ids(turn.response_ids)
    assert 1 <= len(kept) <= 3
    assert kept == sampled[: len(kept)]
    assert shown == turn.reply["content"]


async def test_the_sdk_raises_when_the_engine_dies_in_mid_stream(proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris is the capital."), die_after=3)
    async with AsyncOpenAI(base_url=proxy.url + "/v1", api_key="x", max_retries=0) as sdk:
        stream = await sdk.chat.completions.create(**body(stream=True))
        with pytest.raises(openai.APIError, match="the reply was cut"):
            [chunk async for chunk in stream]


async def test_death_in_mid_reply_without_a_stream_is_a_502(proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris is the capital."), die_after=3)
    answer = await post(proxy)
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "engine_broke"


@pytest.mark.parametrize(
    "garbage",
    [
        b"data: {broken\n\n",
        b'data: {"error": {"message": "out of memory"}}\n\n',
        b'data: {"choices": [{"token_ids": "abc"}]}\n\n',
        b"data: \xff\xfe\n\n",
        b"data: [DONE]\n\n",
        b"<html>502 Bad Gateway</html>",
    ],
)
async def test_garbage_in_mid_reply_is_an_error(proxy: Any, engine: Any, encode: Encode, garbage: bytes) -> None:
    sampled = engine.say(encode("Paris.")[:-1], finish=None, raw=garbage)
    answer = await post(proxy)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "engine_broke")
    (turn,) = await proxy.recorded()
    assert (turn.finish, unpack_ids(turn.response_ids)) == ("error", sampled)


async def test_what_the_engine_finds_wrong_once_it_streams_is_a_refusal(proxy: Any, engine: Any) -> None:
    long = "The decoder prompt (length 5000) is longer than the maximum model length of 4096."
    for message in ("no such thing", long):
        error = {"error": {"message": message, "type": "BadRequestError", "code": 400}}
        engine.say([], raw=b"data: " + msgspec.json.encode(error) + b"\n\n")
    answers = [await post(proxy) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [400, 400]
    assert [answer.json()["error"]["code"] for answer in answers] == ["engine_refused", "context_length_exceeded"]
    assert "maximum context length is 4096 tokens" in answers[1].json()["error"]["message"]
    assert await proxy.recorded() == []


@pytest.mark.parametrize("garbage", [b"data: {broken\n\n", b"data: [DONE]\n\n", b"data: \xff\n\n"])
async def test_garbage_instead_of_a_reply_is_no_reply(proxy: Any, engine: Any, garbage: bytes) -> None:
    engine.say([], raw=garbage)
    answer = await post(proxy)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert await proxy.recorded() == []


async def test_a_slow_reader_is_no_silent_engine(engine: Any, encode: Encode) -> None:
    sampled = engine.say(encode("Paris is the capital."), pace=0.01)
    vllm, read = Vllm(stall_s=0.1), list[int]()
    stream = await vllm.open(engine.url, b'{"token_ids": [1]}')
    async for piece in stream:
        read += piece.ids
        if len(read) == 2:
            # Longer than a silence may be: what is measured is the engine's, not ours
            await asyncio.sleep(0.3)
    assert read == sampled
    stream.close()
    await vllm.close()


async def test_a_reply_without_an_end_is_an_error(proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris."), finish=None)
    assert (await post(proxy)).status_code == 502


async def test_silence_in_mid_reply_is_an_error(start_proxy: Any, engine: Any, encode: Encode) -> None:
    engine.say(encode("Paris."), hold=asyncio.Event(), hold_after=2)
    async with start_proxy([engine.url], stall_s=0.2) as proxy:
        answer = await post(proxy)
        assert answer.status_code == 502
        assert "silent" in answer.json()["error"]["message"]
    await asyncio.wait_for(engine.aborted.wait(), 5)


async def test_a_connection_that_the_engine_closed_meanwhile_costs_nothing(
    proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say(encode("Paris."))
    engine.say(encode("Lyon."), reset=True)
    engine.say(encode("Paris."))
    await post(proxy)
    assert (await post(proxy)).json()["choices"][0]["message"]["content"] == "Paris."


async def test_the_context_is_what_the_engine_says(engine: Any) -> None:
    vllm = Vllm()
    assert await vllm.context_tokens(engine.url) == 1234
    assert await vllm.context_tokens(closed_url()) is None
    await vllm.close()
