"""Secrets and personal data out of a text before it leaves the house."""

import re

from drivetrain.common.patterns import PATTERNS
from drivetrain.judge.text import bounded

MARGIN = 4_096
"""Characters around a cut that are looked at too, so that half a secret at the cut is seen as one."""

_CUT_KEY = re.compile(r"(?s)\A.*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
"""A key that does not begin here was cut: all on its side of the mark goes."""
_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in PATTERNS.items())


def redacted(text: str, limit: int) -> str:
    """At most about `limit` characters of a text, its first and last half, with secrets, e-mail addresses and phone
    numbers replaced by their kind in brackets."""
    if len(text) <= limit:
        return _masked(text)
    half = limit // 2
    # The words at the cut are left out: half a key has no shape.
    head = text[: half + MARGIN].rsplit(maxsplit=1)[0]
    tail = text[-(half + MARGIN) :].split(maxsplit=1)[-1]
    return bounded(f"{_masked(head)}\n{_masked(tail)}", limit)


def _masked(text: str) -> str:
    for name, pattern in _PATTERNS:
        text = pattern.sub(f"[{name}]", text)
    return _CUT_KEY.sub("[private-key]", text)
