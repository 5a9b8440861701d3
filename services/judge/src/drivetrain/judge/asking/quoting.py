"""Whether evidence was really there: the words that a judge model quotes are held against what it was shown."""

import json
import re
from collections.abc import Iterable

_CUT = re.compile(r"…|\.{3,}|\[\s*\.\.\.\s*\]")
_WORD = re.compile(r"\w+")
_SIGN = re.compile(r"[^\x00-\x7f\s]")
_ESCAPES = (("\\n", " "), ("\\t", " "), ('\\"', '"'), ("\\\\", "\\"))
"""Of code inside of code, such as the arguments of a tool call."""


def is_quoted(evidence: str, shown: Iterable[str]) -> bool:
    """Whether the words of a quotation stand one after the other in what was shown (plain, or a message a line as
    JSON). Marks, spaces and capitals may differ, and it may leave out a part where it says so with an ellipsis."""
    texts = [_plain(_text(part)) for part in shown]
    pieces = [plain for cut in _CUT.split(evidence) if any(plain := _plain(cut))]
    return bool(pieces) and all(
        any(words in text[0] if words else signs in text[1] for text in texts) for words, signs in pieces
    )


def _text(part: str) -> str:
    """The texts in a part, without what JSON adds; a line that was cut stays as it is."""
    return "\n".join(_of_line(line) for line in part.split("\n"))


def _of_line(line: str) -> str:
    try:
        message = json.loads(line)
    except ValueError:
        return line
    return "\n".join(map(str, message.values())) if isinstance(message, dict) else line


def _plain(text: str) -> tuple[str, str]:
    """The words alone, and the signs alone that are more than marks (an emoji): they count where there are no words."""
    for escaped, meant in _ESCAPES:
        text = text.replace(escaped, meant)
    return "".join(_WORD.findall(text.casefold())), "".join(_SIGN.findall(text))
