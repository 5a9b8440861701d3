"""From recorded turns and a score to a sample, or to the reason why not."""

from typing import Any

import msgspec
import pytest

from drivetrain.common.events import Sampling, Span, TurnRecorded, TurnScored
from drivetrain.common.tokens import pack_ids, pack_logprobs
from drivetrain.trainer.samples.samples import Reason, Unusable, make_sample


def recorded(turn: str = "b", **changes: Any) -> TurnRecorded:
    base = TurnRecorded(
        tenant="t", policy="p", session="s", turn=turn, parent=None, prompt_ids=pack_ids([5, 6]),
        response_ids=pack_ids([7, 8, 9]), logprobs=pack_logprobs([-0.5, -1.0, -1.5]),
        versions=[Span(0, 2, 3), Span(2, 3, 4)], sampling=Sampling(temperature=0.8), finish="stop", exact=True,
        messages=[{"role": "user", "content": "hi"}], reply={"role": "assistant", "content": "yo"},
        started_at=0.0, finished_at=1.0,
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def scored(reward: float | None = 1.0) -> TurnScored:
    return TurnScored(
        tenant="t", policy="p", session="s", turn="b", n=0, judge="j", reward=reward, votes=[], hints=[], at=0.0
    )


def test_a_sample_holds_what_was_sampled() -> None:
    sample = make_sample(scored(-1.0), 17, [recorded()], max_tokens=100)
    assert (sample.prompt_ids, sample.response_ids) == ((5, 6), (7, 8, 9))
    assert sample.logprobs == (-0.5, -1.0, -1.5)
    assert sample.versions == (3, 3, 4)
    assert (sample.temperature, sample.reward, sample.sequence, sample.key) == (0.8, -1.0, 17, "s/b")


def test_the_prompt_is_the_concatenation_along_the_parents() -> None:
    chain = [
        recorded("root", prompt_ids=pack_ids([1]), response_ids=pack_ids([2, 3])),
        recorded("mid", prompt_ids=pack_ids([4]), response_ids=pack_ids([10])),
        recorded(),
    ]
    assert make_sample(scored(), 1, chain, 100).prompt_ids == (1, 2, 3, 4, 10, 5, 6)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"consent": "record"}, Reason.NO_CONSENT),
        ({"kind": "side"}, Reason.SIDE),
        ({"finish": "aborted"}, Reason.UNFINISHED),
        ({"exact": False, "inexact_reason": "top_p"}, Reason.INEXACT),
        ({"sampling": Sampling(temperature=0.0)}, Reason.INEXACT),
        ({"response_ids": b"", "logprobs": b"", "versions": []}, Reason.EMPTY),
        ({"logprobs": pack_logprobs([float("nan")] * 3)}, Reason.EMPTY),
        ({"logprobs": pack_logprobs([-1.0])}, Reason.MALFORMED),
        ({"versions": [Span(0, 2, 3)]}, Reason.MALFORMED),
        ({"response_ids": b"abc"}, Reason.MALFORMED),
        ({"prompt_ids": pack_ids(range(98))}, Reason.TOO_LONG),
    ],
)
def test_what_cannot_be_trained_says_why(changes: dict[str, Any], reason: Reason) -> None:
    with pytest.raises(Unusable) as error:
        make_sample(scored(), 1, [recorded(**changes)], max_tokens=100)
    assert error.value.reason is reason


def test_a_score_without_a_vote_is_not_a_zero() -> None:
    with pytest.raises(Unusable) as error:
        make_sample(scored(None), 1, [recorded()], 100)
    assert error.value.reason is Reason.UNRESOLVED


def test_a_reply_cut_at_its_length_trains() -> None:
    assert make_sample(scored(), 1, [recorded(finish="length")], 100).reward == 1.0
