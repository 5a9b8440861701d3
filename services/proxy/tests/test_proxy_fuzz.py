"""Requests made up from the proxy's own OpenAPI document: every answer is an answer or a refusal that helps."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

Encode = Callable[[str], list[int]]
ANTHROPIC = ("/v1/messages", "/v1/messages/count_tokens")
REFUSED = {400: "invalid_request_error", 404: "not_found_error", 413: "request_too_large"}
WAIT_S = 10.0
MODEL = {"model": "default"}
CONTENTS = {"contents": [{"parts": [{"text": "Hi"}]}]}
GOOD = (MODEL, MODEL | {"messages": [{"role": "user", "content": "Hi"}], "prompt": "Hi", "input": "Hi"} | CONTENTS)
ENDS = {
    "/v1/chat/completions": "data: [DONE]",
    "/v1/completions": "data: [DONE]",
    "/v1/messages": "message_stop",
    "/v1/responses": "event: response.",
    "/v1beta/models/{model}:streamGenerateContent": "data: {",
    "/v1/models/{model}:streamGenerateContent": "data: {",
}
GOOGLE = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 413: "INVALID_ARGUMENT"}


def cases_of(url: str) -> st.SearchStrategy[Any]:
    """Requests of every operation: half of them as the document says, half not so."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    made = [each.as_strategy(generation_mode=mode) for each in operations for mode in GenerationMode]
    return st.one_of(*made)


def likely(case: Any, fields: set[str], good: dict[str, Any]) -> None:
    """Let a request come further than to its first unknown field, and with `good` values further than to those."""
    if isinstance(case.body, dict):
        case.body = {name: good.get(name, value) for name, value in case.body.items() if name in fields}
        case.path_parameters = dict.fromkeys(case.path_parameters or {}, "default")


def look_at(case: Any, answer: schemathesis.Response, fields: set[str]) -> None:
    """Fail unless the answer is in its dialect's shape, with the status and the words that it should have."""
    path, body = case.operation.path, answer.text
    if answer.status_code == 200:
        whole = answer.headers["content-type"][0].startswith("application/json")
        assert json.loads(body) if whole else ENDS[path] in body.rstrip().rsplit("\n\n", 1)[-1]
        return
    assert answer.status_code in REFUSED, body
    refusal = json.loads(body)
    error = refusal["error"]
    if path in ANTHROPIC:
        assert (set(refusal), set(error)) == ({"type", "error"}, {"type", "message"})
        assert error["type"] == REFUSED[answer.status_code]
    elif ":" in path or "/v1beta/" in path:
        assert set(error) == {"code", "message", "status"}
        assert error["status"] == GOOGLE[answer.status_code]
    else:
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
    assert helps(error["message"], error.get("param"), fields), error


def helps(message: str, param: str | None, fields: set[str]) -> bool:
    """Whether a refusal says where to look: at the body, at a field that it names, or at the whole prompt."""
    return bool(param and message) or any(
        word in message for word in ("the body", "the feedback", "the field", "JSON of", "prompt is too long", *fields)
    )


def fields_of(document: dict[str, Any]) -> dict[str, set[str]]:
    """The names of the fields of each path's body, and, as "", of everything inside bodies too."""
    schemas = document["components"]["schemas"]
    names = {"": {name for schema in schemas.values() for name in schema.get("properties", ())}}
    for path, item in document["paths"].items():
        if body := item.get("post", {}).get("requestBody"):
            schema = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            names[path] = set(schemas[schema]["properties"])
    return names


def fuzz(url: str, examples: int) -> Counter[int]:
    """Send that many requests, one after another; how often each status came."""
    seen, fields = Counter[int](), fields_of(requests.get(f"{url}/openapi.json", timeout=WAIT_S).json())

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases_of(url), good=st.sampled_from([None, *GOOD]))
    def send(case: Any, good: dict[str, Any] | None) -> None:
        if good is not None:
            likely(case, fields.get(case.operation.path, set()), good)
        answer = case.call(session=session, timeout=WAIT_S)
        seen[answer.status_code] += 1
        look_at(case, answer, fields[""])

    with requests.Session() as session:
        send()
    return seen


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("examples", [300, pytest.param(2500, marks=pytest.mark.long)])
async def test_whatever_is_sent_is_answered_or_refused_with_words_that_help(
    start_proxy: Any, engine: Any, encode: Encode, examples: int
) -> None:
    engine.say_always(encode("Paris."))
    async with start_proxy([engine.url]) as proxy:
        seen = await asyncio.to_thread(fuzz, proxy.url, examples)
        assert seen.total() >= examples
        assert seen[200] > examples / 40, seen
        assert seen[400] > examples / 20, seen
        turns = await proxy.recorded()
        assert {turn.finish for turn in turns} == {"stop"}
