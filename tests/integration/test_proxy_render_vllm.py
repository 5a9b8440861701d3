"""Prompts against those of a real vLLM server, over random conversations to which the harness only appends."""

import random

import httpx
import pytest

from drivetrain.proxy.prompts.plain import plain
from drivetrain.proxy.prompts.templates import Template
from tests.conversations import Talk, append_only
from tests.vllm import VllmServer


@pytest.mark.vllm
def test_prompts_are_those_of_vllm_itself(vllm_server: VllmServer) -> None:
    talk = Talk(Template(str(vllm_server.model)), random.Random(11))
    with httpx.Client(base_url=vllm_server.url, timeout=30) as http:
        for seed in range(3):
            talk.rng = random.Random(seed)
            for asked in append_only(talk, 12, tools=False, reasoning=False, system=seed > 0):
                sent = {"model": "default", "messages": [plain(message) for message in asked.messages]}
                rendered = http.post("/v1/chat/completions/render", json=sent).json()
                assert asked.prompt.ids == rendered["token_ids"]
                assert asked.prompt.drift in ("root", "clean")
