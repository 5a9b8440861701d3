"""The judge model against the real vLLM: guided decoding makes every answer one of the asked shape, however small the
model. What it quotes is another matter: only what was there counts."""

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from drivetrain.judge.asking.asker import Asker
from drivetrain.judge.asking.prompt import material, messages_for
from drivetrain.judge.asking.quoting import is_quoted
from drivetrain.judge.endpoint import Endpoint
from drivetrain.judge.ranking import question as ranking
from drivetrain.judge.rubric import Criterion, Rubric
from drivetrain.judge.settings import ModelSettings
from drivetrain.judge.sources import model, rubric
from drivetrain.judge.sources.base import Case, NoScore
from drivetrain.judge.sources.model import ModelJudge
from tests.vllm import POLICY, VllmServer

pytestmark = pytest.mark.vllm

CASE = Case(
    ({"role": "user", "content": "What is rain?"},),
    {"role": "assistant", "content": "- water\n- clouds"},
    ({"role": "user", "content": "That is a list. Please write one plain sentence."},),
)
RUBRIC = Rubric((Criterion("answers", "It answers what was asked."), Criterion("plain", "It is in plain words.")))


def settings_for(server: VllmServer) -> ModelSettings:
    return ModelSettings(
        enabled=True, url=f"{server.url}/v1", model=POLICY, local=True, timeout_s=100, attempts=1, rounds=1,
        max_tokens=400, context_chars=1000,
    )  # fmt: skip


async def answer(
    server: VllmServer, instructions: str, parts: Mapping[str, str], schema: dict[str, Any]
) -> dict[str, Any]:
    """What the model says, as JSON. It quotes little: a small model writes for as long as it may."""
    short = json.loads(json.dumps(schema).replace('"maxLength": 400', '"maxLength": 40'))
    settings = settings_for(server)
    async with httpx.AsyncClient() as client:
        endpoint, messages = Endpoint(settings, client), messages_for(instructions, parts, "5f3a")
        found: dict[str, Any] = json.loads(await endpoint.complete(messages, 0, short, 300))
    return found


async def test_every_answer_is_a_ballot(vllm_server: VllmServer) -> None:
    ballot = await answer(vllm_server, model.INSTRUCTIONS, material(CASE, 1000, mask=False), model.VOTE)
    assert set(ballot) == {"vote", "evidence", "hint"}
    assert ballot["vote"] in (-1, 0, 1)


async def test_every_answer_has_each_criterion(vllm_server: VllmServer) -> None:
    schema = rubric.schema_of(RUBRIC)
    verdicts = await answer(vllm_server, rubric.INSTRUCTIONS, material(CASE, 1000, mask=False), schema)
    assert set(verdicts) == {"answers", "plain"}
    assert {verdict["answer"] for verdict in verdicts.values()} <= set(rubric.WORTH)


async def test_every_answer_places_each_attempt(vllm_server: VllmServer) -> None:
    parts = {"TASK": "Say what rain is.", "ATTEMPT A": "water that falls", "ATTEMPT B": "a kind of dog"}
    places = await answer(vllm_server, ranking.INSTRUCTIONS, parts, ranking.schema_of(("A", "B")))
    assert {label: place["place"] in (1, 2) for label, place in places.items()} == {"A": True, "B": True}


async def test_a_vote_of_so_small_a_model_counts_only_with_words_that_were_there(vllm_server: VllmServer) -> None:
    settings = settings_for(vllm_server)
    shown = material(CASE, settings.context_chars, mask=False).values()
    async with httpx.AsyncClient() as client:
        try:
            opinion = await ModelJudge(Asker(settings, Endpoint(settings, client))).judge(CASE)
        except NoScore:
            return
    assert len(opinion.votes) >= 2
    assert all(is_quoted(vote.evidence, shown) for vote in opinion.votes)
