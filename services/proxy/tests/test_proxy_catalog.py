"""What the declarations of the dialects promise: anything is read or refused, and the documents say the same."""

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.proxy.dialects import gemini, openai_chat
from drivetrain.proxy.dialects.base import Dialect
from drivetrain.proxy.dialects.catalog import DIALECTS, page, schemas
from drivetrain.proxy.errors import Refused

QUESTION = {"role": "user", "content": "The capital of France?"}
GOOD = {
    "/v1/chat/completions": {"model": "default", "messages": [QUESTION]},
    "/v1/responses": {"model": "default", "input": [QUESTION]},
    "/v1beta/models/{model}:generateContent": {"contents": [{"parts": [{"text": "The capital of France?"}]}]},
    "/v1/completions": {"model": "default", "prompt": "The capital"},
    "/v1/messages": {"model": "default", "messages": [QUESTION], "max_tokens": 50},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = sorted({field for dialect in DIALECTS for field in dialect.SUPPORT.body.__struct_encode_fields__})


@settings(max_examples=100, deadline=None)
@given(
    body=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3),
    dialect=st.sampled_from(DIALECTS),
)
def test_reading_anything_gives_an_ask_or_a_refusal(body: dict[str, Any], dialect: Dialect) -> None:
    try:
        result = dialect.read(msgspec.json.encode(GOOD[dialect.PATH] | body)).model
    except Refused as refused:
        result = (refused.status, bool(refused.message))
    named_by_path = dialect is gemini
    assert result in ("" if named_by_path else "default", body.get("model"), (400, True))


def test_the_page_of_the_dialects_is_up_to_date() -> None:
    document = Path(__file__).parents[3] / "docs" / "dialects.md"
    assert document.read_text() == page(), "run python -m drivetrain.proxy.dialects > docs/dialects.md"


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.NAME)
def test_a_support_list_contradicts_nothing(dialect: Dialect) -> None:
    fields, support = set(dialect.SUPPORT.body.__struct_encode_fields__), dialect.SUPPORT
    assert not fields & set(support.harmless)
    assert set(support.notes) <= fields
    assert not set(support.harmless) & set(support.refused)


async def test_openapi_describes_the_body_of_every_endpoint_that_takes_one(proxy: Any) -> None:
    async with httpx.AsyncClient() as http:
        document = (await http.get(f"{proxy.url}/openapi.json")).json()
    described = {
        path: item["post"]["requestBody"]["content"]["application/json"]["schema"]
        for path, item in document["paths"].items()
        if "post" in item
    }
    assert set(described) == set(schemas()[0])
    names = {schema["$ref"].rpartition("/")[2] for schema in described.values()}
    assert names <= set(document["components"]["schemas"])
    assert openai_chat.PATH in described
