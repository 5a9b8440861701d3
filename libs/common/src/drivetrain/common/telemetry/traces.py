"""W3C trace context across the bus: one trace from a harness's request to the weights that it changed.

The current `traceparent` is a context variable. The bus sends it with every event, and a consumer that handles a
delivery enters the delivery's own trace, so no handler ever mentions it.
"""

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

HEADER = "traceparent"
_FORM = re.compile(r"^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$")
_current: ContextVar[str | None] = ContextVar("traceparent", default=None)


def current_traceparent() -> str | None:
    """The trace context that events published now belong to."""
    return _current.get()


@contextmanager
def trace(headers: Mapping[str, str]) -> Iterator[str]:
    """Continue the trace named in the headers (of a request or a delivery), or start a new one; yields the
    `traceparent` of this part of it."""
    given = next((value for name, value in headers.items() if name.lower() == HEADER), "")
    matched = _FORM.match(given)
    trace_id = matched.group(1) if matched and int(matched.group(1), 16) else secrets.token_hex(16)
    flags = matched.group(3) if matched else "01"
    parent = f"00-{trace_id}-{secrets.token_hex(8)}-{flags}"
    token = _current.set(parent)
    try:
        yield parent
    finally:
        _current.reset(token)
