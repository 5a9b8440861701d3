"""Logprobs and token ids with the reply: those that were sampled, and the likeliest others if they are wanted."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from drivetrain.common.tokens import unpack_logprobs
from drivetrain.proxy.engines.base import Candidate, Sampled
from drivetrain.proxy.replies.parts import Tokens

Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
async def sdk(proxy: Any) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=proxy.url + "/v1", api_key="any", max_retries=0) as client:
        yield client


async def chat(sdk: AsyncOpenAI, **options: Any) -> Any:
    return await sdk.chat.completions.create(model="default", messages=[QUESTION], **options)


async def test_logprobs_and_token_ids_are_those_that_were_sampled(
    sdk: AsyncOpenAI, engine: Any, encode: Encode
) -> None:
    sampled = engine.say(encode("Pariß 😀"))
    reply = await chat(sdk, logprobs=True, extra_body={"return_token_ids": True})
    assert reply.prompt_token_ids == engine.requests[0]["token_ids"]
    assert reply.choices[0].token_ids == sampled
    rows = reply.choices[0].logprobs.content
    assert [row.logprob for row in rows] == [-0.25 * (1 + token % 8) for token in sampled]
    assert [row.top_logprobs for row in rows] == [[]] * len(sampled)
    assert reply.choices[0].message.content.startswith(rows[0].token)
    assert bytes(rows[0].bytes).decode() == rows[0].token
    assert any(row.bytes is None for row in rows)


async def test_streamed_logprobs_and_token_ids_miss_no_token(sdk: AsyncOpenAI, engine: Any, encode: Encode) -> None:
    sampled = engine.say(encode("Pariß 😀 <tool_call>\n{}"))
    ids, logprobs, prompt = [], [], None
    stream = await chat(
        sdk, logprobs=True, top_logprobs=1, tools=[TOOL], stream=True, extra_body={"return_token_ids": True}
    )
    async for chunk in stream:
        prompt = getattr(chunk, "prompt_token_ids", None) or prompt
        for choice in chunk.choices:
            ids += getattr(choice, "token_ids", None) or []
            logprobs += choice.logprobs.content if choice.logprobs else []
    assert ids == sampled
    assert [row.logprob for row in logprobs] == [-0.25 * (1 + token % 8) for token in sampled]
    assert {len(row.top_logprobs) for row in logprobs} == {1}
    assert prompt == engine.requests[0]["token_ids"]


async def test_the_likeliest_tokens_are_told_and_the_record_keeps_the_sampled_ones(
    sdk: AsyncOpenAI, proxy: Any, engine: Any, encode: Encode
) -> None:
    sampled = engine.say(encode("Paris."))
    reply = await chat(sdk, logprobs=True, top_logprobs=2)
    assert engine.requests[0]["sampling_params"]["logprobs"] == 3
    rows = reply.choices[0].logprobs.content
    # The stub samples a token that is less likely than all others: it is not among the two likeliest.
    assert [[one.logprob for one in row.top_logprobs] for row in rows] == [[-0.125, -0.1875]] * len(sampled)
    assert rows[0].top_logprobs[0].bytes == list(rows[0].top_logprobs[0].token.encode())
    (turn,) = await proxy.recorded()
    assert unpack_logprobs(turn.logprobs) == [-0.25 * (1 + token % 8) for token in sampled]
    assert turn.exact


async def test_completions_tell_them_by_text_with_the_sampled_token_among_them(
    sdk: AsyncOpenAI, engine: Any, encode: Encode
) -> None:
    (first, *_) = engine.say(encode(" is"))
    reply = await sdk.completions.create(model="default", prompt="Paris", logprobs=2)
    logprobs = reply.choices[0].logprobs
    assert len(logprobs.top_logprobs) == len(logprobs.tokens)
    assert logprobs.top_logprobs[0][logprobs.tokens[0]] == -0.25 * (1 + first % 8)
    assert sorted(logprobs.top_logprobs[0].values())[1:] == [-0.1875, -0.125]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"top_logprobs": 3}, "needs logprobs"), ({"logprobs": True, "top_logprobs": 21}, "<= 20")],
)
async def test_what_cannot_be_told_is_refused(sdk: AsyncOpenAI, change: dict[str, Any], words: str) -> None:
    with pytest.raises(openai.BadRequestError, match=words) as caught:
        await chat(sdk, **change)
    assert caught.value.param == "top_logprobs"


def test_an_engine_that_names_no_candidates_leaves_their_places_empty() -> None:
    none = Tokens.of(Sampled([5, 6], [-1.0, -2.0]), 2, str)
    assert (none.texts, none.tops) == (["5", "6"], [[], []])
    some = Sampled([5], [-1.0], tops=[[Candidate(5, -1.0), Candidate(7, -0.5), Candidate(8, -0.75)]])
    assert Tokens.of(some, 2, str).tops == [[("7", -0.5), ("8", -0.75)]]
    assert Tokens.of(some, 0, str).tops == []
