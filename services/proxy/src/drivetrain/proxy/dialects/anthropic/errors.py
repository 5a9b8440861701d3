"""Refusals in Anthropic's shape and words."""

from typing import Any

from drivetrain.proxy.errors import ContextExceeded, Refused

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


def error(error: Refused) -> dict[str, Any]:
    """A refusal in Anthropic's shape; a prompt that is too long in the words that make its harnesses compact."""
    message = error.message
    if isinstance(error, ContextExceeded):
        message = f"prompt is too long: {error.tokens} tokens > {error.limit} maximum"
    elif error.param and not message.startswith(error.param):
        message = f"{error.param}: {message}"
    kind = _TYPES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}
