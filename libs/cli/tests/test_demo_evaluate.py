"""The held-out measurement: intervals against published values, figures of a round, the probe text."""

import math

import hypothesis.strategies as st
import pytest
from aiohttp import web
from hypothesis import given

from drivetrain.cli.demo.evaluate import (
    Answer,
    ProbeFailed,
    perplexity,
    probe_passages,
    prompt_logprobs,
    summarise,
    wilson,
)
from drivetrain.cli.demo.measures import stem, words
from drivetrain.cli.demo.questions import heldout_subjects, training_subjects


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [
        # Newcombe (1998), table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (64, 64, 0.9434, 1.0),
    ],
)
def test_wilson_intervals_match_published_values(hits: int, total: int, low: float, high: float) -> None:
    found = wilson(hits, total)
    assert found.share == hits / total
    assert found.low == pytest.approx(low, abs=5e-5)
    assert found.high == pytest.approx(high, abs=5e-5)


@given(st.integers(1, 2000), st.data())
def test_an_interval_holds_its_share(total: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, total))
    found = wilson(hits, total)
    assert 0.0 <= found.low <= found.share <= found.high <= 1.0


@pytest.mark.parametrize(("hits", "total"), [(0, 0), (3, 2), (-1, 5)])
def test_no_interval_without_trials(hits: int, total: int) -> None:
    with pytest.raises(ValueError, match="at least one trial"):
        wilson(hits, total)


def test_a_round_is_summed_up() -> None:
    answers = [
        Answer("q1", "A tide is a rise.", "stop", []),
        Answer("q2", "a  tide is a RISE.", "stop", []),
        Answer("q3", "one two three", "length", ["sentences: too many"]),
        Answer("q4", "", "failed", ["the request failed"]),
    ]
    found = summarise(answers, perplexity=12.5)
    assert (found.satisfied.hits, found.satisfied.total) == (2, 4)
    assert found.median_words == 4.0
    assert found.distinct == 0.75
    assert found.perplexity == 12.5


def test_the_probe_text_is_about_no_subject_of_the_demo() -> None:
    passages = probe_passages()
    assert len(passages) == 5
    assert sum(len(words(passage)) for passage in passages) > 250
    said = {stem(word) for passage in passages for word in words(passage)}
    named = [s for s in training_subjects() + heldout_subjects() if {stem(w) for w in words(s.many)} <= said]
    assert len(named) <= 3


def test_reads_prompt_logprobs_of_all_but_the_first_token() -> None:
    positions = [None, {"15": {"logprob": -1.0, "rank": 1}}, {"7": {"logprob": -3.0, "rank": 4}}]
    assert prompt_logprobs({"choices": [{"prompt_logprobs": positions}]}) == [-1.0, -3.0]
    with pytest.raises(ValueError, match="no prompt_logprobs"):
        prompt_logprobs({"choices": [{"prompt_logprobs": None}]})


async def serve(routes: list[web.RouteDef]) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def test_perplexity_is_over_all_tokens_of_all_passages() -> None:
    given = {"first": [-1.0, -2.0], "second": [-6.0]}

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "default"}]})

    async def completions(request: web.Request) -> web.Response:
        body = await request.json()
        assert (body["model"], body["prompt_logprobs"]) == ("default", 0)
        positions = [None, *({"1": {"logprob": value}} for value in given[body["prompt"]])]
        return web.json_response({"choices": [{"prompt_logprobs": positions}]})

    runner, url = await serve([web.get("/v1/models", models), web.post("/v1/completions", completions)])
    try:
        assert await perplexity(url, ["first", "second"]) == pytest.approx(math.exp(3.0))
    finally:
        await runner.cleanup()


async def test_an_engine_that_does_not_score_is_named() -> None:
    runner, url = await serve([])
    try:
        with pytest.raises(ProbeFailed, match=url):
            await perplexity(url, ["first"])
    finally:
        await runner.cleanup()
