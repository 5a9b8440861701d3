"""What every dialect is: it reads a request into an `Ask`, writes a reply in its own shape, and lists what it supports.

A dialect is a module with these names. It is pure: bytes in, bytes out; `answers` drives it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from drivetrain.proxy.errors import Refused
from drivetrain.proxy.replies.parts import Finished, Opened, Tokens
from drivetrain.proxy.replies.reader import Call, Piece
from drivetrain.proxy.turns import Ask

Part = Tokens | Piece | Call | Finished
"""What follows the opening of a reply."""


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """What a dialect makes of each field of a request.

    The fields of `body` are honoured, as far as `notes` says. Those of `harmless` are accepted and change nothing.
    `refused` says what to do instead, for fields or values that cannot be honoured; a field in none of them is refused
    too. Names are paths, `messages[].content[].type` for one inside lists.
    """

    body: type[msgspec.Struct]
    notes: Mapping[str, str]
    harmless: Mapping[str, str]
    refused: Mapping[str, str]


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when a reply begins: the request, unix seconds, and each sibling's opening."""

    ask: Ask
    created: int
    opened: Sequence[Opened]


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """One reply, complete."""

    content: str
    reasoning: str
    calls: Sequence[Call]
    tokens: Tokens
    finished: Finished


class Writes(Protocol):
    """Writes one streamed answer as server-sent events; every method may return nothing (`b""`)."""

    def opened(self) -> bytes:
        """What comes before the first piece."""
        ...

    def part(self, index: int, part: Part) -> bytes:
        """A part of the `index`-th sibling's reply; the last `Finished` also ends the stream."""
        ...

    def broken(self, error: Refused) -> bytes:
        """The end of a stream whose engine died."""
        ...


class Dialect(Protocol):
    """The names that a dialect's module has."""

    NAME: str
    PATH: str
    SUPPORT: Support

    def read(self, data: bytes) -> Ask:
        """A request's body as what is asked.

        Raises:
            Refused: with the field at fault, and what to do instead.
        """
        ...

    def writer(self, head: Head) -> Writes:
        """What writes the stream that answers a request."""
        ...

    def document(self, head: Head, replies: Sequence[Whole]) -> dict[str, Any]:
        """The answer to a request that does not stream, to be sent as JSON."""
        ...

    def error(self, error: Refused) -> dict[str, Any]:
        """A refusal in this dialect's shape, in the words that its harnesses recognise."""
        ...
