"""The list of models, and one of them, as OpenAI's, Anthropic's and Gemini's clients read it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any


def is_gemini(path: str, headers: Mapping[str, str]) -> bool:
    """Whether a client is one of Gemini's, by its path or its headers. Header names are lower case."""
    return "/v1beta/" in path or "x-goog-api-key" in headers or "x-goog-api-client" in headers


def openai_model(policy: str, since: int) -> dict[str, Any]:
    """A policy as OpenAI describes a model; `since` is in unix seconds."""
    return {"id": policy, "object": "model", "created": since, "owned_by": "drivetrain"}


def openai_list(policies: Sequence[str], since: int) -> dict[str, Any]:
    """All policies in OpenAI's shape."""
    return {"object": "list", "data": [openai_model(policy, since) for policy in policies]}


def anthropic_model(policy: str, since: int) -> dict[str, Any]:
    """A policy as Anthropic describes a model; `since` is in unix seconds."""
    created = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "model", "id": policy, "display_name": policy, "created_at": created}


def anthropic_list(policies: Sequence[str], since: int) -> dict[str, Any]:
    """All policies in Anthropic's shape, on one page."""
    ends = {"first_id": policies[0], "last_id": policies[-1]} if policies else {"first_id": None, "last_id": None}
    return {"data": [anthropic_model(policy, since) for policy in policies], "has_more": False, **ends}


def gemini_model(policy: str) -> dict[str, Any]:
    """A policy as Gemini describes a model."""
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    return {"name": f"models/{policy}", "displayName": policy, "supportedGenerationMethods": methods}


def gemini_list(policies: Sequence[str]) -> dict[str, Any]:
    """All policies in Gemini's shape, on one page."""
    return {"models": [gemini_model(policy) for policy in policies]}
