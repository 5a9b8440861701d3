"""The patterns of the lexicon as regular expressions."""

import functools
import re

from drivetrain.judge import lexicon


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern of the lexicon occurs in normalised text."""
    return compiled(pattern).search(text) is not None


@functools.cache
def compiled(pattern: str, unless_negated: bool = False) -> re.Pattern[str]:
    """A phrase with its classes filled in, matched at word boundaries, and not after "not" if so wished."""
    while names := re.findall(r"<([A-Z_]+)>", pattern):
        for name in names:
            pattern = pattern.replace(f"<{name}>", _alternatives(getattr(lexicon, name)))
    before = r"(?<!\w)(?<!not )(?<!never )(?<!hardly )" if unless_negated else r"(?<!\w)"
    return re.compile(rf"{before}(?:{pattern})(?!\w)")


def _alternatives(meant: frozenset[str] | str) -> str:
    """A word class or a pattern by name, as one group."""
    if isinstance(meant, str):
        return f"(?:{meant})"
    return "(?:" + "|".join(sorted(map(re.escape, meant), key=lambda word: (-len(word), word))) + ")"
