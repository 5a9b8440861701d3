"""What is asked: conversations that grow turn by turn, as bytes that are built with little work while others wait."""

import json
from functools import cache

import msgspec

from benchmarks.proxy.wire import POLICY

FILLER = [
    "the", "of", "and", "to", "in", "is", "that", "it", "for", "was", "on", "as", "with", "his", "be", "at", "by",
    "had", "not", "are", "but", "from", "or", "have", "an", "they", "which", "one", "you", "were", "all", "her",
    "she", "there", "would", "their", "we", "him", "been", "has", "when", "who", "will", "no", "more", "if", "out",
    "so", "up", "said", "what", "its", "about", "than", "into", "them", "can", "only", "other", "time", "new",
    "some", "could", "these", "two", "may", "first", "then", "do", "any", "like", "my", "now", "over", "such",
    "our", "man", "me", "even", "most", "made", "after", "also", "did", "many",
]  # fmt: skip
"""Words that are one token each, with the space before them, for every tokenizer that is used here."""

_MESSAGE_TOKENS = 300
_SYSTEM_SHARE = 0.2


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one measurement; lengths are in tokens.

    A stream goes on with its conversation of `history` tokens, `new` more with each turn; after `turns` turns it goes
    back to the beginning. One request in `fresh_every` is the first of another conversation, of `fresh` tokens; 0
    means none, 1 that every request is a first one.
    """

    history: int = 8000
    new: int = 300
    fresh: int = 20_000
    fresh_every: int = 10
    reply: int = 96
    turns: int = 8


SHORT = Shape(history=0, new=0, fresh=500, fresh_every=1, reply=32)
"""Every request a new conversation with a short prompt: what a relay does besides its own work."""


@cache
def filler(tokens: int) -> str:
    """A text of so many tokens."""
    return "".join(" " + FILLER[i * 7 % len(FILLER)] for i in range(tokens))


def message(role: str, text: str) -> bytes:
    """A message as it stands in a request's body."""
    return json.dumps({"role": role, "content": text}).encode()


@cache
def history(tokens: int) -> tuple[bytes, ...]:
    """An earlier conversation of so many tokens: all but its first message, which names the conversation."""
    rest = tokens - int(tokens * _SYSTEM_SHARE)
    sizes = [_MESSAGE_TOKENS] * (rest // _MESSAGE_TOKENS // 2 * 2)
    texts = [message(("user", "assistant")[i % 2], filler(size).strip()) for i, size in enumerate(sizes)]
    return (*texts, message("user", filler(max(rest - sum(sizes), 1)).strip()))


class Conversation:
    """One conversation as the client keeps it. `name` makes it different from all others."""

    def __init__(self, name: str, tokens: int) -> None:
        opening = message("system", f"Conversation {name}." + filler(int(tokens * _SYSTEM_SHARE)))
        self.name = name
        self._messages = [opening, *history(tokens)]
        self._beginning = 0

    def body(self, request: int, reply: int) -> bytes:
        """The request for the next reply."""
        fields = {"model": POLICY, "stream": True, "seed": request, "max_tokens": reply, "temperature": 1.0}
        head = json.dumps(fields).encode()
        return head[:-1] + b', "messages": [' + b", ".join(self._messages) + b"]}"

    def go_on(self, reply: str, name: str, new: int) -> None:
        """The reply came, and the user says more; `name` makes it different from other turns."""
        if not self._beginning:
            self._beginning = len(self._messages) + 1
        self._messages += [message("assistant", reply), message("user", f"{name}:" + filler(new))]

    def back(self) -> None:
        """Only the first reply came yet: the next `go_on` takes the place of the turns after it."""
        del self._messages[self._beginning - 1 :]

    def __len__(self) -> int:
        return len(self._messages)


def is_fresh(request: int, shape: Shape) -> bool:
    """Whether the request with this number, counted over all streams, begins another conversation."""
    return bool(shape.fresh_every) and request % shape.fresh_every == shape.fresh_every - 1


def ramp(streams: int, reply_s: float) -> list[float]:
    """When each stream begins, in seconds: evenly over the time of one reply, so that they do not ask together."""
    return [reply_s * stream / streams for stream in range(streams)]
