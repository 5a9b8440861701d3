"""What is asked: conversations that grow turn by turn, as bytes that are built with little work while others wait."""

import argparse
import asyncio.base_events
import inspect
import json
import zlib
from functools import cache

import msgspec

from benchmarks.proxy.wire import POLICY

CHARS_PER_TOKEN = 4.5
"""Of the default model's tokenizer, in the texts below."""

_MESSAGE_TOKENS = 300
_SYSTEM_SHARE = 0.2


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one measurement; lengths are in tokens.

    A stream goes on with its conversation of `history` tokens, `new` more with each turn; after `turns` turns it begins
    the next. One request in `fresh_every` is the first of another conversation, of `fresh` tokens; 0
    means none, 1 that every request is a first one. With `ends` the last request of a conversation says that it is.
    """

    history: int = 8000
    new: int = 300
    fresh: int = 20_000
    fresh_every: int = 10
    reply: int = 96
    turns: int = 16
    ends: bool = False


SHORT = Shape(history=1, new=0, fresh=500, fresh_every=1, reply=32)
"""Every request a new conversation with a short prompt: what a relay does besides its own work."""


@cache
def corpus() -> str:
    """English and code, as agents read them: sources of Python's own library."""
    return "".join(inspect.getsource(module) for module in (argparse, asyncio.base_events, inspect))


def excerpt(tokens: int, at: int) -> str:
    """A text of about so many tokens; different places give different texts."""
    size = int(tokens * CHARS_PER_TOKEN)
    begin = at * 7919 % (len(corpus()) - size)
    return corpus()[begin : begin + size]


def message(role: str, text: str) -> bytes:
    """A message as it stands in a request's body."""
    return json.dumps({"role": role, "content": text}).encode()


@cache
def system(tokens: int) -> bytes:
    """The system message: the same for all conversations, as a harness's is."""
    return message("system", excerpt(tokens, 0))


def history(name: str, tokens: int) -> list[bytes]:
    """An earlier conversation of about so many tokens, ending with the user's message."""
    own = int(tokens * _SYSTEM_SHARE)
    pairs = (tokens - own) // _MESSAGE_TOKENS // 2
    sizes = [_MESSAGE_TOKENS] * 2 * pairs
    at = zlib.crc32(name.encode())
    texts = [excerpt(size, at + i) for i, size in enumerate([*sizes, max(tokens - own - sum(sizes), 1)])]
    said = [message(("user", "assistant")[i % 2], f"{name}/{i}\n{text}") for i, text in enumerate(texts)]
    return [system(own), *said]


class Conversation:
    """One conversation as the client keeps it. `name` makes it different from all others."""

    def __init__(self, name: str, tokens: int) -> None:
        self.name = name
        self._messages = history(name, tokens)

    def body(self, request: int, reply: int, *, last: bool = False) -> bytes:
        """The request for the next reply; with `last` it says that none will follow."""
        fields = {"model": POLICY, "stream": True, "seed": request, "max_tokens": reply, "temperature": 1.0}
        fields |= {"session_done": True} if last else {}
        head = json.dumps(fields).encode()
        return head[:-1] + b', "messages": [' + b", ".join(self._messages) + b"]}"

    def go_on(self, reply: str, name: str, new: int) -> None:
        """The reply came, and the user says more; `name` makes it different from other turns."""
        self._messages += [
            message("assistant", reply),
            message("user", f"{name}\n{excerpt(new, len(name) + len(self))}"),
        ]

    def __len__(self) -> int:
        return len(self._messages)


def is_fresh(request: int, shape: Shape) -> bool:
    """Whether the request with this number, counted over all streams, begins another conversation."""
    return bool(shape.fresh_every) and request % shape.fresh_every == shape.fresh_every - 1


def ramp(streams: int, reply_s: float) -> list[float]:
    """When each stream begins, in seconds: evenly over the time of one reply, so that they do not ask together."""
    return [reply_s * stream / streams for stream in range(streams)]
