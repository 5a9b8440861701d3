"""The events of vLLM's stream, read with types: tokens, logprobs, versions, counts, and errors of each kind."""

from typing import Any

import msgspec
import pytest

from drivetrain.proxy.engines.base import Candidate, EngineBroke, EngineRefused, LabelSpan, Sampled
from drivetrain.proxy.engines.wire import read_chunk, read_first


def chunk(**choice: Any) -> bytes:
    return msgspec.json.encode({"choices": [{"index": 0, **choice}]})


def test_a_chunk_is_read_with_its_logprobs_and_spans() -> None:
    content = [{"token_id": 5, "logprob": -0.5, "rank": 1}, {"token_id": 6, "logprob": -9999.0}]
    spans = [{"version": "3", "start": 0, "end": 2}]
    data = chunk(token_ids=[5, 6], logprobs={"content": content}, finish_reason="length", weight_versions=spans)
    assert read_chunk(data) == Sampled([5, 6], [-0.5, None], "length", [LabelSpan(0, 2, "3")])


def test_logprobs_of_other_tokens_are_none_of_ours() -> None:
    content = [{"token_id": 9, "logprob": -0.5}]
    assert read_chunk(chunk(token_ids=[5], logprobs={"content": content})).logprobs == [None]
    assert read_chunk(chunk(token_ids=[5], logprobs=None)).logprobs == [None]


def test_cached_tokens_come_with_the_usage() -> None:
    usage = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
    assert read_chunk(msgspec.json.encode({"choices": [], "usage": usage})).cached == 4


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_aborted_reply_is_no_finished_one(reason: str) -> None:
    with pytest.raises(EngineBroke, match=reason):
        read_chunk(chunk(token_ids=[5], finish_reason=reason))


def test_candidates_are_those_beside_the_sampled_token() -> None:
    top = [{"token_id": 5, "logprob": -0.5}, {"token_id": 6, "logprob": -1.5}]
    content = [{"token_id": 5, "logprob": -0.5, "top_logprobs": top}]
    assert read_chunk(chunk(token_ids=[5], logprobs={"content": content})).tops == [
        [Candidate(5, -0.5), Candidate(6, -1.5)]
    ]
    alone = [{"token_id": 5, "logprob": -0.5, "top_logprobs": top[:1]}]
    assert read_chunk(chunk(token_ids=[5], logprobs={"content": alone})).tops is None


def test_the_prompt_comes_as_the_engine_reads_it() -> None:
    data = msgspec.json.encode({"choices": [{"index": 0, "token_ids": [5]}], "prompt_token_ids": [1, 2]})
    assert read_first(data).prompt_ids == [1, 2]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "too long", "code": 400}, EngineRefused),
        ({"message": "out of memory", "code": 500}, EngineBroke),
        ("what?", EngineBroke),
    ],
)
def test_an_error_instead_of_tokens_is_a_refusal_if_it_has_the_code_of_one(error: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=error["message"] if isinstance(error, dict) else error):
        read_first(msgspec.json.encode({"error": error}))
