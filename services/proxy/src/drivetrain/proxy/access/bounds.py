"""How large a request may be. What is larger is refused before anything is made of it."""

import asyncio
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from starlette.requests import Request

from drivetrain.proxy.errors import Refused
from drivetrain.proxy.turns import Ask


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The most that one request may be: bytes and seconds of its body, its messages, the levels of its JSON; and what
    becomes of tools that only a provider's servers run."""

    body_bytes: int = 16 << 20
    body_s: float = 120.0
    messages: int = 8000
    depth: int = 64
    server_tools: Literal["refuse", "ignore"] = "refuse"


async def body_of(request: Request, bounds: Bounds) -> bytes:
    """The request's body.

    Raises:
        Refused: 413 when it is too large, said before it is read where its length is declared; 408 when it is not
            whole in time.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > bounds.body_bytes:
        raise _too_large(bounds)
    parts, size = [], 0
    try:
        async with asyncio.timeout(bounds.body_s):
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > bounds.body_bytes:
                    raise _too_large(bounds)
    except TimeoutError as error:
        message = f"the body was not whole within {bounds.body_s:g} seconds"
        raise Refused(408, message, code="body_too_slow") from error
    return b"".join(parts)


def within(ask: Ask, bounds: Bounds) -> Ask:
    """The ask, if it is within bounds.

    Raises:
        Refused: more messages, deeper JSON in messages, tools or schemas, or other tools than are allowed.
    """
    if len(ask.messages) > bounds.messages:
        message = f"{len(ask.messages)} messages are more than the {bounds.messages} allowed: compact the conversation"
        raise Refused(400, message, param="messages", code="too_many_messages")
    if ask.server_tools and bounds.server_tools == "refuse":
        names = ", ".join(dict.fromkeys(ask.server_tools))
        raise Refused(400, f"{names}: no server runs tools here: leave them out", param="tools", code="server_tool")
    # Every other field has a type, and with it a depth.
    looked = [("tools", ask.tools), ("response_format", ask.sampling.other.values())]
    nested = [value for message in ask.messages for value in message.values() if isinstance(value, list | dict)]
    for field, values in [*looked, ("messages", nested)]:
        if deeper_than(values, bounds.depth):
            raise Refused(400, f"{field}: JSON of more than {bounds.depth} levels", param=field, code="too_deep")
    return ask


def deeper_than(values: Iterable[Any], depth: int) -> bool:
    """Whether JSON values have more levels of objects and arrays than this."""
    level = [value for value in values if isinstance(value, dict | list)]
    for _ in range(depth):
        below = (each.values() if isinstance(each, dict) else each for each in level)
        level = [value for inner in below for value in inner if isinstance(value, dict | list)]
        if not level:
            return False
    return bool(level)


def _too_large(bounds: Bounds) -> Refused:
    return Refused(413, f"the body is larger than {bounds.body_bytes} bytes", code="body_too_large")
