"""Refusals in the shape of Google's APIs, and in Gemini's words."""

from typing import Any

from drivetrain.proxy.errors import ContextExceeded, Refused

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
}


def error(error: Refused) -> dict[str, Any]:
    """A refusal in Google's shape; a prompt that is too long in the words that make its harnesses compact."""
    message = error.message
    if isinstance(error, ContextExceeded):
        limit = f"the maximum number of tokens allowed ({error.limit})"
        message = f"The input token count ({error.tokens}) exceeds {limit}."
    elif error.param and not message.startswith(error.param):
        message = f"{error.param}: {message}"
    told: dict[str, Any] = {
        "code": error.status,
        "message": message,
        "status": _STATUSES.get(error.status, "UNKNOWN"),
    }
    if error.retry_after is not None:
        delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{error.retry_after}s"}
        told["details"] = [delay]
    return {"error": told}
