"""Sampled token ids to text as they come: whole characters only, markers apart from text that looks like them."""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers.decoders import DecodeStream

MARKS = {"<think>": "\ufdd0", "</think>": "\ufdd1", "<tool_call>": "\ufdd2", "</tool_call>": "\ufdd3"}
"""The character that stands for a marker that was sampled as one token. Unicode gives these to no text; where a model
says one nevertheless, it is shown as U+FFFD."""

_FORGED = {ord(mark): "\ufffd" for mark in MARKS.values()}
_AS_SAID = {ord(mark): marker for marker, mark in MARKS.items()}


class Decoder:
    """Token ids to text, a token at a time; bytes of an unfinished character wait for the rest of it.

    `hidden` tokens have no text; a token of `markers` gives its mark.
    """

    def __init__(self, tokenizer: Any, hidden: frozenset[int], markers: Mapping[int, str]) -> None:
        self._backend = tokenizer.backend_tokenizer
        self._special = dict.fromkeys(hidden, "") | {token: MARKS[marker] for token, marker in markers.items()}
        self._stream = DecodeStream(skip_special_tokens=False)
        self._last: list[int] = []
        self._held: list[int] = []

    def feed(self, ids: Sequence[int]) -> str:
        """The text that these tokens complete."""
        return "".join(self._step(token) for token in ids)

    def finish(self) -> str:
        """What is left of an unfinished character, as replacement characters."""
        said, self._held = self._decode(self._last + self._held), []
        return said.removeprefix(self._decode(self._last)).translate(_FORGED)

    def _step(self, token: int) -> str:
        self._held.append(token)
        text = self._streamed(token)
        if text is None:
            return ""
        self._last, self._held = self._held, []
        if token not in self._special:
            return text.translate(_FORGED)
        before = text.removesuffix(self._decode([token]))
        return before.translate(_FORGED) + self._special[token]

    def _streamed(self, token: int) -> str | None:
        """The text that a token completes. Bytes that make no character can change what tokenizers with a token for
        each byte say of the bytes before, which are shown already: then what is held speaks for itself."""
        try:
            text: str | None = self._stream.step(self._backend, token)
        except Exception:  # noqa: BLE001  its own type cannot be imported
            self._stream = DecodeStream(skip_special_tokens=False)
            text = self._decode(self._held)
        return text

    def _decode(self, ids: list[int]) -> str:
        return str(self._backend.decode(ids, skip_special_tokens=False))


class StopCut:
    """Ends the text before the first stop string; what may be the beginning of one is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops, self._held, self._over = list(stops), "", False
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """The part of the text so far that certainly precedes any stop string."""
        if self._over or not self._stops:
            return "" if self._over else text
        text = self._held + text
        found = [(at, stop) for at, stop in ((text.find(stop), stop) for stop in self._stops) if at >= 0]
        if found:
            at, self.matched = min(found)
            self._over, self._held = True, ""
            return text[:at]
        keep = len(text) - beginning_of(text, self._stops)
        self._held = text[keep:]
        return text[:keep]

    def finish(self) -> str:
        """What was held back and turned out not to be a stop string."""
        held, self._held = self._held, ""
        return held


def as_said(text: str) -> str:
    """Text with its marks written out."""
    return text.translate(_AS_SAID)


def beginning_of(text: str, markers: Sequence[str]) -> int:
    """Length of the longest tail of the text with which one of the markers begins."""
    longest = max((len(marker) for marker in markers), default=1) - 1
    lengths = range(min(longest, len(text)), 0, -1)
    return next((n for n in lengths if any(marker.startswith(text[-n:]) for marker in markers)), 0)
