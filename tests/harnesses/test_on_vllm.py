"""Harnesses whose prompts fit the small model, through the real proxy before a real vLLM: nothing is scripted.

The model is too small to do the work; what is proven is that each of its calls was recorded with the very tokens.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from drivetrain.cli.connecting.trying import run_once
from drivetrain.common.harnesses import load_harnesses
from drivetrain.common.tokens import unpack_ids, unpack_logprobs
from drivetrain.proxy.prompts.templates import Template
from tests.harnesses.driving import ROOT, whole_prompt
from tests.proxy_served import Proxy, served
from tests.vllm import VllmServer

pytestmark = [pytest.mark.vllm, pytest.mark.long]
CONTEXT = 4096
UNNAMED = "weight version is not an integer: default"
"""Nobody has told this server which version it serves: that alone may be missing."""


@pytest.fixture
async def proxy(vllm_server: VllmServer, valkey_url: str, tmp_path: Path) -> AsyncIterator[Proxy]:
    async with served(
        [vllm_server.url],
        model=vllm_server.model,
        redis_url=valkey_url,
        prefix=f"h{uuid4().hex[:8]}:",
        spool=tmp_path / "spool",
        context_tokens=CONTEXT,
        bounds={"body_bytes": 16 << 20},
        stall_s=60,
    ) as running:
        yield running


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["pi", "mini-swe-agent"])
async def test_each_call_is_recorded_as_the_engine_sampled_it(
    proxy: Proxy, vllm_server: VllmServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIVETRAIN_HOME", str(ROOT / ".harness"))
    values: dict[str, str | int] = {
        "proxy_url": proxy.url,
        "key": "any",
        "model": "default",
        "context": CONTEXT,
        "reply": 64,
        "instruction": "Say hello.",
    }
    await asyncio.to_thread(run_once, load_harnesses()[name], values, None, 240.0)
    turns = sorted(await proxy.recorded(), key=lambda turn: turn.started_at)
    turns = [turn for turn in turns if turn.finish not in ("error", "aborted")]
    assert turns, "no call of it was answered in time"
    template = Template(str(vllm_server.model))
    for turn in turns:
        assert turn.inexact_reason in ("", UNNAMED)
        sampled = unpack_ids(turn.response_ids)
        assert len(sampled) == len(unpack_logprobs(turn.logprobs)) > 0
        assert all(logprob <= 0 for logprob in unpack_logprobs(turn.logprobs))
        assert (turn.reply["content"] or "").strip() in template.decode(sampled)
    first = turns[0]
    assert whole_prompt(first, turns) == template.render(first.messages, first.tools)
    assert {turn.session for turn in turns} == {first.session}
