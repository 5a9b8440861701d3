"""Replies that the real engine holds to a form: schemas and required calls, whatever the model would rather say."""

import json
from typing import Any

import httpx
import pytest

from drivetrain.proxy.engines.grammar import held_to_calls, json_of
from drivetrain.proxy.engines.sampling import engine_parameters
from drivetrain.proxy.prompts.templates import Template
from drivetrain.proxy.turns import Ask
from tests.vllm import VllmServer

pytestmark = pytest.mark.vllm
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Lyon"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("weather", "search")]
ASK = Ask(model="default", messages=[{"role": "user", "content": "Tell me a story of the sea."}])


def sampled(server: VllmServer, template: Template, ask: Ask, other: dict[str, Any]) -> str:
    """What the engine samples for the ask under further sampling parameters."""
    parameters = engine_parameters(ask, template.stop_ids, template.marker_ids) | other | {"max_tokens": 100}
    body = {"token_ids": template.render(ask.messages, []), "sampling_params": parameters}
    answer = httpx.post(f"{server.url}/inference/v1/generate", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return str(template.tokenizer.decode(answer.json()["choices"][0]["token_ids"], skip_special_tokens=True))


def test_the_engine_holds_replies_to_schemas_and_to_calls(vllm_server: VllmServer) -> None:
    template = Template(str(vllm_server.model))
    assert json.loads(sampled(vllm_server, template, ASK, json_of(SCHEMA)))["city"] in ("Paris", "Lyon")
    required = held_to_calls(
        Ask(model="default", messages=ASK.messages, tools=TOOLS, must_call=["search"]),
        json_calls=template.json_calls,
        reasons_first=False,
    )
    text = sampled(vllm_server, template, ASK, required.sampling.other)
    opening, _, rest = text.partition("\n")
    assert opening == "<tool_call>"
    call = json.loads(rest.partition("\n</tool_call>")[0])
    assert call["name"] == "search"
    assert call["arguments"]["city"] in ("Paris", "Lyon")
