"""What every dialect supports, as the page in the docs and as OpenAPI, both from the declarations themselves."""

from collections.abc import Iterator
from typing import Any

import msgspec

from drivetrain.proxy.api.feedback import Feedback
from drivetrain.proxy.dialects import anthropic, gemini, openai_chat, openai_completions, openai_responses
from drivetrain.proxy.dialects.anthropic.body import CountBody
from drivetrain.proxy.dialects.base import Dialect, Support
from drivetrain.proxy.dialects.gemini.body import CountBody as GeminiCount

DIALECTS: tuple[Dialect, ...] = (openai_chat, openai_responses, openai_completions, anthropic, gemini)

_INTRODUCTION = """# Dialects

What the proxy makes of each field of a request. *Honoured* fields do what the API says, as far as the note tells;
*harmless* ones are accepted and change nothing; what would change the reply and cannot be honoured is *refused* with a
400 that names the field, in the API's own shape. So is every field that is in none of these tables.

This page is written by `python -m drivetrain.proxy.dialects`.
"""
_COMPONENTS = "#/components/schemas/{name}"


def page() -> str:
    """The page as Markdown."""
    return _INTRODUCTION + "".join(_section(dialect) for dialect in DIALECTS)


def schemas() -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """JSON Schemas of the request bodies by path, and the components that they refer to."""
    bodies: dict[str, type[msgspec.Struct]] = {dialect.PATH: dialect.SUPPORT.body for dialect in DIALECTS}
    bodies |= dict.fromkeys((gemini.STREAM_PATH, *map(gemini.also, gemini.GENERATE)), gemini.SUPPORT.body)
    bodies |= dict.fromkeys((gemini.COUNT_PATH, gemini.also(gemini.COUNT_PATH)), GeminiCount)
    bodies |= {f"{anthropic.PATH}/count_tokens": CountBody, "/v1/feedback": Feedback}
    found, components = msgspec.json.schema_components(bodies.values(), ref_template=_COMPONENTS)
    return dict(zip(bodies, found, strict=True)), components


def _section(dialect: Dialect) -> str:
    rows = "".join(f"| `{name}` | {what} | {note} |\n" for name, what, note in _rows(dialect.SUPPORT))
    return f"\n## {dialect.NAME}: `POST {dialect.PATH}`\n\n| Field | | What to know |\n|---|---|---|\n{rows}"


def _rows(support: Support) -> Iterator[tuple[str, str, str]]:
    fields = sorted(support.body.__struct_encode_fields__)
    for name in fields:
        remedy = support.refused.get(name)
        yield name, "honoured", "; else ".join(filter(None, (support.notes.get(name), remedy)))
    for name, note in sorted(support.harmless.items()):
        yield name, "harmless", note
    for name, remedy in sorted(support.refused.items()):
        if name not in fields:
            yield name, "refused", remedy
