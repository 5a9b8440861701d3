"""The judge model against the real vLLM: guided decoding makes every answer a vote, however small the model."""

import httpx
import pytest

from drivetrain.judge.asking.asker import Asker
from drivetrain.judge.endpoint import Endpoint
from drivetrain.judge.settings import ModelSettings
from drivetrain.judge.sources.base import Case
from drivetrain.judge.sources.model import ModelJudge
from tests.vllm import POLICY, VllmServer

pytestmark = pytest.mark.vllm


async def test_every_answer_under_guided_decoding_is_a_vote(vllm_server: VllmServer) -> None:
    settings = ModelSettings(
        enabled=True, url=f"{vllm_server.url}/v1", model=POLICY, local=True, timeout_s=100, attempts=1, rounds=1,
        max_tokens=400, context_chars=1000,
    )  # fmt: skip
    case = Case(
        ({"role": "user", "content": "What is rain?"},),
        {"role": "assistant", "content": "- water\n- clouds"},
        ({"role": "user", "content": "That is a list. Please write one plain sentence."},),
    )
    async with httpx.AsyncClient() as client:
        opinion = await ModelJudge(Asker(settings, Endpoint(settings, client))).judge(case)
    assert len(opinion.votes) >= 2
    assert {vote.value for vote in opinion.votes} <= {-1, 0, 1}
    assert all(vote.evidence for vote in opinion.votes)
