"""Secrets in what is recorded: masked as text and as tokens, never trained; and the conversation goes on exactly."""

import json
import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from drivetrain.common.events import TurnRecorded
from drivetrain.common.patterns import PATTERNS as BUILT_IN
from drivetrain.common.tokens import unpack_ids, unpack_logprobs
from drivetrain.proxy.access.mask import Mask
from drivetrain.proxy.access.redaction import Reader, Redaction
from drivetrain.proxy.prompts.templates import Template
from drivetrain.proxy.recording.recorder import Recorder
from drivetrain.proxy.recording.spool import Spool

Encode = Callable[[str], list[int]]
KEY = "sk-ant-api03-" + "aB3dE5gH7jK9mN2pQ4rS"
OTHER = "ghp_" + "Zy8Xw6Vu4Ts2Rq0Po9Nm7Lk5Ji3Hg1Fe"
PATTERNS = {"api-key": BUILT_IN["api-key"]}


def mask(patterns: dict[str, str] = PATTERNS) -> Mask:
    return Mask(Redaction(patterns, {})._patterns)


async def ask(proxy: Any, messages: list[Any], **more: Any) -> dict[str, Any]:
    body = {"model": "default", "messages": messages, **more}
    async with httpx.AsyncClient(base_url=proxy.url, timeout=20) as http:
        answer = await http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def visible(template: Template, turn: TurnRecorded) -> str:
    ids = [token for token in unpack_ids(turn.prompt_ids) + unpack_ids(turn.response_ids) if token >= 0]
    return str(template.tokenizer.decode(ids))


async def test_a_secret_reaches_neither_the_log_nor_training_and_the_session_goes_on_exactly(
    start_proxy: Any, engine: Any, encode: Encode, template: Template, tmp_path: Any
) -> None:
    sampled = engine.say(encode(f"Your key is {KEY} then"))
    engine.say(encode("Yes."))
    engine.say(encode("Bye."))
    question = {"role": "user", "content": f"My key: {OTHER}!"}
    async with start_proxy([engine.url], patterns=PATTERNS) as proxy:
        reply = (await ask(proxy, [question]))["choices"][0]["message"]
        history = [question, reply, {"role": "user", "content": "Is it?"}]
        last = (await ask(proxy, history))["choices"][0]["message"]
        await ask(proxy, [*history, last, {"role": "user", "content": "Thanks"}])
        one, two, three = await proxy.recorded()
        followed = await proxy.followed()
        spooled = b"".join(file.read_bytes() for file in (tmp_path / "spool").rglob("*") if file.is_file())
    assert reply["content"] == f"Your key is {KEY} then"  # the caller gets what was sampled
    prompts = [request["token_ids"] for request in engine.requests]
    assert prompts[1][: len(prompts[0]) + len(sampled)] == prompts[0] + sampled

    assert one.messages == [{"role": "user", "content": "My key: [masked: api-key]!"}]
    assert one.reply["content"] == "Your key is [masked: api-key] then"
    text = visible(template, one)
    assert "My key: " in text
    assert text.endswith(" then<|im_end|>")
    assert KEY not in text
    assert OTHER not in text
    ids, logprobs = unpack_ids(one.response_ids), unpack_logprobs(one.logprobs)
    assert len(ids) == len(sampled)
    hidden = [at for at, token in enumerate(ids) if token == -1]
    assert [token for token in ids if token != -1] == [t for at, t in enumerate(sampled) if at not in hidden]
    assert KEY in template.tokenizer.decode([sampled[at] for at in hidden])
    assert [at for at, value in enumerate(logprobs) if math.isnan(value)] == hidden

    assert [turn.masked for turn in (one, two, three)] == ["api-key"] * 3
    assert {(turn.exact, turn.consent, turn.inexact_reason) for turn in (one, two, three)} == {
        (False, "record", "masked: api-key")
    }
    assert unpack_ids(two.response_ids) == encode("Yes.")  # it holds no secret: only its chain does
    assert [(event.turn, event.trainable) for event in followed] == [(one.turn, False), (two.turn, False)]
    assert followed[0].before == one.messages
    for secret in (KEY, OTHER):
        assert secret.encode() not in spooled


async def test_tool_calls_tools_and_feedback_are_masked(start_proxy: Any, engine: Any, encode: Encode) -> None:
    call = {"name": "login", "arguments": {"token": KEY}}
    engine.say(encode(f"<tool_call>\n{json.dumps(call)}\n</tool_call>"))
    tool = {"type": "function", "function": {"name": "login", "description": f"try {OTHER}", "parameters": {}}}
    async with start_proxy([engine.url], patterns=PATTERNS) as proxy:
        answer = await ask(proxy, [{"role": "user", "content": "Log in"}], tools=[tool], stop=[OTHER])
        async with httpx.AsyncClient(base_url=proxy.url) as http:
            feedback = {"response": answer["id"], "score": 1, "text": f"it leaked {KEY}"}
            assert (await http.post("/v1/feedback", json=feedback)).status_code == 200
        turn, signal = await proxy.events()
    assert KEY in json.dumps(answer)
    recorded = json.dumps([turn.reply, turn.tools, turn.sampling.stop, signal.text])
    assert recorded.count("[masked: api-key]") == 4
    assert KEY not in recorded
    assert OTHER not in recorded


async def test_without_a_secret_or_without_patterns_a_turn_trains(
    start_proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say_always(encode("Paris."))
    async with start_proxy([engine.url], patterns=PATTERNS) as proxy:
        await ask(proxy, [{"role": "user", "content": "The capital of France?"}])
        (clean,) = await proxy.recorded()
    async with start_proxy([engine.url], name="other") as proxy:
        await ask(proxy, [{"role": "user", "content": f"My key: {KEY}"}])
        (unmasked,) = await proxy.recorded()
    assert [(turn.masked, turn.exact, turn.consent) for turn in (clean, unmasked)] == [("", True, "train")] * 2
    assert KEY in unmasked.messages[0]["content"]


@pytest.mark.parametrize(
    ("name", "text", "masked"),
    [
        ("api-key", f"data: {{'key': '{KEY}'}}\n\ndata: [DONE]", "data: {'key': '[masked: api-key]'}\n\ndata: [DONE]"),
        ("api-key", "AKIAIOSFODNN7EXAMPLE and task-force", "[masked: api-key] and task-force"),
        ("private-key", "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n", "a\n[masked: private-key]"),
        (
            "private-key",
            "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nb",
            "[masked: private-key]\nb",
        ),
        ("bearer", "Authorization: Bearer abcdefghijklmnop1234", "Authorization: [masked: bearer]"),
        ("bearer", "the bearer of this letter", "the bearer of this letter"),
        ("url-password", "postgres://me:hunter2@db/x", "[masked: url-password]db/x"),
        ("url-password", "http://127.0.0.1:8080/a", "http://127.0.0.1:8080/a"),
        ("e-mail", "To a.b@example.org.", "To [masked: e-mail]."),
    ],
)
def test_what_the_patterns_find(name: str, text: str, masked: str) -> None:
    assert mask({name: BUILT_IN[name]}).text(text) == masked


def test_the_bytes_of_an_image_are_no_secret_but_words_beside_them_are() -> None:
    image = "data:image/png;base64,iVBORw0KGgo/AKIAIOSFODNN7EXAMPLE/+AA=="
    part = {"type": "image_url", "image_url": {"url": image}}
    assert mask().value([part]) == [part]
    assert mask().text(f"{image} {KEY}").endswith(" [masked: api-key]")


def test_a_key_of_json_may_be_a_secret_too() -> None:
    assert mask().value({"scores": {KEY: [OTHER, 1, None]}}) == {
        "scores": {"[masked: api-key]": ["[masked: api-key]", 1, None]}
    }


def test_a_pattern_of_ones_own(template: Template) -> None:
    own = mask({"ticket": r"\bACME-\d+\b"})
    assert own.messages([{"role": "user", "content": "See ACME-12."}]) == [
        {"role": "user", "content": "See [masked: ticket]."}
    ]
    assert (own.found, own.secrets) == ({"ticket"}, {"ACME-12"})


def test_a_secret_of_many_bytes_takes_all_tokens_of_its_characters(template: Template, encode: Encode) -> None:
    redaction = Redaction({"own": "😀"}, {"default": Reader(template.tokenizer.backend_tokenizer)})
    ids = encode("a 😀 b")[:-1]
    hidden = redaction._hidden("default", ids, mask({"own": "😀"}))
    shown = [token for at, token in enumerate(ids) if at not in hidden]
    assert template.tokenizer.decode(shown).replace(" ", "") == "ab"


async def test_an_event_that_cannot_be_masked_is_not_recorded_and_fails_no_reply(
    proxy: Any, engine: Any, encode: Encode, tmp_path: Any
) -> None:
    engine.say(encode("Paris."))
    await ask(proxy, [{"role": "user", "content": "The capital of France?"}])
    (turn,) = await proxy.recorded()
    spool = Spool(tmp_path / "broken")
    recorder = Recorder(spool, Redaction(PATTERNS, {}).beside)  # no reader for the turn's policy
    assert await recorder.record(turn) is False
    assert await recorder.record_turn(turn) == turn
    assert spool.backlog_bytes == 0
    spool.close()
