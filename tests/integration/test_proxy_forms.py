"""What the real engine makes of our sampling parameters: replies held to a form, one call, the likeliest tokens."""

import json
import re
from functools import reduce
from typing import Any

import httpx
import pytest

from drivetrain.common.events import Sampling
from drivetrain.proxy.dialects.answers import joined
from drivetrain.proxy.engines.grammar import CallForm, held, json_of
from drivetrain.proxy.engines.sampling import CALL_END, engine_parameters
from drivetrain.proxy.engines.wire import read_chunk, request_body
from drivetrain.proxy.prompts.templates import Template
from drivetrain.proxy.replies.parts import Tokens
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
MESSAGES = [{"role": "user", "content": "Tell me a story of the sea."}]
CALLS: dict[CallForm, str] = {
    "json": r'<tool_call>\{"name":"search","arguments":\{"city":"(Paris|Lyon)"\}\}</tool_call>',
    "qwen_xml": "<tool_call><function=search><parameter=city>(Paris|Lyon)</parameter></function></tool_call>",
    "glm_xml": "<tool_call>search<arg_key>city</arg_key><arg_value>(Paris|Lyon)</arg_value></tool_call>",
    "glm_xml_lines": "<tool_call>search<arg_key>city</arg_key><arg_value>(Paris|Lyon)</arg_value></tool_call>",
}
"""A call in each form, without its white space, which the engine leaves to the model."""


def asked(**more: Any) -> Ask:
    defaults: dict[str, Any] = {"sampling": Sampling(max_tokens=100, seed=1)}
    return Ask(model="default", messages=MESSAGES, **(defaults | more))


def sampled(server: VllmServer, template: Template, ask: Ask, opening: str = "") -> Tokens:
    """What the engine samples for the ask, as the proxy asks it to and reads it; `opening` begins the reply."""
    parameters = engine_parameters(ask, template.stop_ids, template.marker_ids)
    prompt = template.render(ask.messages, []) + template.encode(opening)
    body, headers = request_body("t", prompt, parameters), {"Content-Type": "application/json"}
    answer = httpx.post(f"{server.url}/inference/v1/generate", content=body, headers=headers, timeout=120)
    assert answer.status_code == 200, answer.text
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    parts = [read_chunk(event.encode()) for event in events]
    return reduce(joined, (Tokens.of(part, ask.top_logprobs, lambda token: template.decode([token])) for part in parts))


def text_of(template: Template, tokens: Tokens) -> str:
    return str(template.tokenizer.decode(tokens.ids, skip_special_tokens=True))


def test_the_engine_holds_replies_to_schemas(vllm_server: VllmServer) -> None:
    template = Template(str(vllm_server.model))
    reply = sampled(vllm_server, template, asked(sampling=Sampling(max_tokens=100, other=json_of(SCHEMA))))
    assert json.loads(text_of(template, reply))["city"] in ("Paris", "Lyon")


@pytest.mark.parametrize("form", CALLS)
def test_the_engine_holds_replies_to_calls_in_each_form(vllm_server: VllmServer, form: CallForm) -> None:
    template = Template(str(vllm_server.model))
    required = held(asked(tools=TOOLS, must_call=["search"], one_call=True), form=form, reasons_first=False)
    text = text_of(template, sampled(vllm_server, template, required))
    assert re.fullmatch(CALLS[form], re.sub(r"\s", "", text)), text


def test_reasoning_that_has_begun_is_free_and_the_reply_does_not_end_with_it(vllm_server: VllmServer) -> None:
    template = Template(str(vllm_server.model))
    tokens = Sampling(max_tokens=40, seed=1)
    required = held(asked(tools=TOOLS, must_call=["search"], sampling=tokens), form="json", reasons_first=True)
    reply = sampled(vllm_server, template, required, opening="<think>\nSo: a search.")
    reasoning, closed, call = text_of(template, reply).partition("</think>")
    assert re.fullmatch(CALLS["json"], re.sub(r"\s", "", call)) if closed else len(reply.ids) == 40
    assert reasoning


def test_a_reply_ends_with_the_end_of_its_first_call_and_keeps_its_tokens(vllm_server: VllmServer) -> None:
    template = Template(str(vllm_server.model))
    two = {"structured_outputs": {"regex": r"(<tool_call>\n\{\}\n</tool_call>\n?){2}"}}
    ask = asked(tools=TOOLS, sampling=Sampling(max_tokens=100, other=two))
    call = "<tool_call>\n{}\n</tool_call>"
    assert text_of(template, sampled(vllm_server, template, ask)).count(call) == 2
    one = asked(tools=TOOLS, one_call=True, sampling=Sampling(max_tokens=100, other=two))
    reply = sampled(vllm_server, template, one)
    text = text_of(template, reply)
    assert (text.count(call), text.rpartition(CALL_END)[2].strip()) == (1, "")
    assert None not in reply.logprobs


def test_the_likeliest_tokens_are_ranked_and_greedy_sampling_takes_the_first(vllm_server: VllmServer) -> None:
    template = Template(str(vllm_server.model))
    greedy = asked(top_logprobs=3, sampling=Sampling(max_tokens=8, temperature=0))
    reply = sampled(vllm_server, template, greedy)
    assert [len(tops) for tops in reply.tops] == [3] * len(reply.ids)
    assert [tops[0][0] for tops in reply.tops] == reply.texts
    assert all(first[1] >= second[1] >= third[1] for first, second, third in reply.tops)
    # However unlikely the sampled token is, the likeliest others are all told.
    odd = asked(top_logprobs=2, sampling=Sampling(max_tokens=8, temperature=2.0, seed=3))
    rows = sampled(vllm_server, template, odd)
    beside = [tops for text, tops in zip(rows.texts, rows.tops, strict=True) if text not in dict(tops)]
    assert beside
    assert all(len(tops) == 2 for tops in beside)
