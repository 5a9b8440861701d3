"""Whether evidence was really there: the words that a judge model quotes are held against what it was shown."""

import re
from collections.abc import Iterable

_CUT = re.compile(r"…|\.{3,}|\[\s*\.\.\.\s*\]")
_WORD = re.compile(r"\w+")
_ESCAPES = (("\\n", " "), ("\\t", " "), ('\\"', '"'), ("\\\\", "\\"))


def is_quoted(evidence: str, shown: Iterable[str]) -> bool:
    """Whether the words of a quotation stand one after the other in what was shown (plain, or as JSON); marks, spaces
    and capitals may differ, and the quotation may leave out a part where it says so with an ellipsis."""
    texts = [_plain(text) for text in shown]
    pieces = [piece for cut in _CUT.split(evidence) if (piece := _plain(cut))]
    return bool(pieces) and all(any(piece in text for text in texts) for piece in pieces)


def _plain(text: str) -> str:
    """The words alone; of a text without any (a sign, an emoji) all but the spaces."""
    for escaped, meant in _ESCAPES:
        text = text.replace(escaped, meant)
    folded = text.casefold()
    return "".join(_WORD.findall(folded)) or "".join(folded.split())
