"""What patterns find in one event's texts, numbers and keys, and what stands there instead."""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from drivetrain.common.events import Message
from drivetrain.common.telemetry.logs import get_logger

TIMEOUT_S = 2.0
"""How long one pattern may look at one text. What it cannot decide by then counts as a secret."""

Span = tuple[int, int]
_IMAGE = re.compile(r"data:image/[a-z.+-]+;base64,[A-Za-z0-9+/=\s]*")
_log = get_logger("access")


class Mask:
    """Masks one event, and remembers what it found: the names of patterns, and the secrets themselves. A pattern that
    took too long takes all that it is shown from then on for a secret."""

    def __init__(self, patterns: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> None:
        self._patterns, self._timeout_s = patterns, timeout_s
        self._slow: set[str] = set()
        self.found: set[str] = set()
        self.secrets: set[str] = set()

    def text(self, text: str) -> str:
        """A text with every match replaced by `[masked: <name>]`. JSON stays JSON."""
        if _IMAGE.fullmatch(text):
            return text  # bytes of an image, in which anything may happen to match
        masked = self._text(text)
        if masked != text and text.startswith(("{", "[")) and (value := _json(text)) and not _json(masked):
            masked = self._text(json.dumps(self.value(value), ensure_ascii=False))
        return masked

    def value(self, value: Any) -> Any:
        """JSON with every text and number in it masked, keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value if (masked := self._text(text := repr(value))) == text else masked
        if isinstance(value, dict):
            result: dict[str, Any] = {}
            for key, item in value.items():
                result[_unused(self.text(key), result)] = self.value(item)
            return result
        return [self.value(item) for item in value] if isinstance(value, list) else value

    def messages(self, messages: list[Message]) -> list[Message]:
        """Messages, likewise."""
        return cast(list[Message], self.value(messages))

    def spans(self, text: str) -> list[Span]:
        """Where the patterns match in the text of tokens."""
        spans = [(name, span) for name in self._patterns for span in self._matches(name, text)]
        self.found |= {name for name, _ in spans}
        return [span for _, span in spans]

    def _text(self, text: str) -> str:
        for name in self._patterns:
            parts, at = [], 0
            for start, end in self._matches(name, text):
                self.found.add(name)
                self.secrets.add(text[start:end])
                parts += [text[at:start], f"[masked: {name}]"]
                at = end
            text = "".join((*parts, text[at:]))
        return text

    def _matches(self, name: str, text: str) -> list[Span]:
        """Where a pattern matches: everywhere, if it takes too long."""
        try:
            if name not in self._slow:
                looking = self._patterns[name].finditer(text, timeout=self._timeout_s, concurrent=True)
                return [match.span() for match in looking if match[0]]
        except TimeoutError:
            _log.error("a redaction pattern takes too long: all of what it is shown is masked", pattern=name)
            self._slow.add(name)
        return [(0, len(text))] if text else []


def _json(text: str) -> Any:
    """An object or array, or None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _unused(key: str, taken: Mapping[str, Any]) -> str:
    """The key, or one like it that is not there yet."""
    found, number = key, 1
    while found in taken:
        number += 1
        found = f"{key} {number}"
    return found
