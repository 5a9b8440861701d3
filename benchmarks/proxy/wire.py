"""What the parts of the benchmark agree on: the reply that is sampled, and the clock that they share.

The stub engine writes down when it received a request and when it wrote each token; the load generator reads that, so
that a latency is what lies between the two ends, without the engine's own time. The clock is CLOCK_MONOTONIC, which
all processes of a machine share; a request is named by its `seed`, which every candidate passes on.
"""

import mmap
from pathlib import Path

import msgspec

POLICY = "policy"
MAX_TOKENS = 512
SLOTS = 4096
"""Requests that may be in progress at once."""


class Words(msgspec.Struct, frozen=True):
    """The reply: the same words over and over, each one token; the last token, `end`, ends it and has no text."""

    words: list[str]
    ids: list[int]
    end: int

    def token(self, index: int, tokens: int) -> int:
        """The id of the reply's token at an index, in a reply of so many."""
        return self.end if index + 1 == tokens else self.ids[index % len(self.ids)]

    def text(self, index: int, tokens: int) -> str:
        """What that token adds to the text."""
        return "" if index + 1 == tokens else self.words[index % len(self.words)]

    def reply(self, tokens: int) -> str:
        """The whole text of a reply of so many tokens."""
        return "".join(self.text(index, tokens) for index in range(tokens))


class Times:
    """A file of times, shared between processes: for each request when it was received, then its tokens' times."""

    ROW = MAX_TOKENS + 1

    def __init__(self, path: Path) -> None:
        size = SLOTS * self.ROW * 8
        with path.open("a+b") as file:
            if path.stat().st_size < size:
                file.truncate(size)
            self._map = mmap.mmap(file.fileno(), size)
        self._view = memoryview(self._map).cast("d")

    def received(self, request: int, at: float) -> None:
        """The whole request is there."""
        self._view[request % SLOTS * self.ROW] = at

    def wrote(self, request: int, token: int, at: float) -> None:
        """A token was handed to the system."""
        self._view[request % SLOTS * self.ROW + 1 + token] = at

    def of_request(self, request: int) -> float:
        """When the engine had the request."""
        return self._view[request % SLOTS * self.ROW]

    def of_token(self, request: int, token: int) -> float:
        """When the engine wrote a token."""
        return self._view[request % SLOTS * self.ROW + 1 + token]
