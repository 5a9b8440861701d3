"""Tokens that have arrived together are handled as one."""

import json

import pytest

from drivetrain.proxy.engines.base import EngineBroke, LabelSpan, Sampled
from drivetrain.proxy.engines.stream import together


def event(tokens: list[int], *, finish: str | None = None, spans: list[dict[str, object]] | None = None) -> bytes:
    logprobs = {"content": [{"token_id": token, "logprob": -0.5} for token in tokens]}
    choice = {"token_ids": tokens, "logprobs": logprobs, "finish_reason": finish, "weight_versions": spans}
    return json.dumps({"choices": [choice]}).encode()


USAGE = json.dumps({"choices": [], "usage": {"prompt_tokens_details": {"cached_tokens": 3}}}).encode()


def test_tokens_keep_their_order_and_what_the_last_ones_bring() -> None:
    end = event([8], finish="stop", spans=[{"version": "7", "start": 0, "end": 3}])
    whole = Sampled([5, 6, 8], [-0.5, -0.5, -0.5], "stop", [LabelSpan(0, 3, "7")], 3)
    assert list(together([event([5, 6]), end, USAGE, b"[DONE]", b"what follows the end"])) == [whole]


def test_a_single_event_stays_as_it_is_and_none_give_nothing() -> None:
    assert list(together([event([5])])) == [Sampled([5], [-0.5])]
    assert list(together([b"[DONE]"])) == []


def test_what_comes_before_an_error_is_given_first() -> None:
    arrived = together([event([5]), event([6]), b'{"error": {"message": "out of memory"}}', event([7])])
    assert next(arrived) == Sampled([5, 6], [-0.5, -0.5])
    with pytest.raises(EngineBroke, match="out of memory"):
        next(arrived)
