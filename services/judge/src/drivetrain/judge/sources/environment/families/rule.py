"""What a rule is: a line of tool output, and what kind of failure it tells of."""

import re
from typing import Literal, NamedTuple

Kind = Literal["absent", "refused", "crash", "tests", "usage", "timeout", "patch"]
"""absent: a file, a program, a page, an element that is not there. refused: permission, a constraint, a login. crash:
an exception, a compiler's or a program's error. usage: a call that the tool does not understand."""


Where = Literal["edges", "anywhere", "first"]
"""Where such a line counts: at the edges of the output, anywhere in it, or only first (or in a short output)."""


class Rule(NamedTuple):
    """A pattern for a line that tells of a failure."""

    name: str
    kind: Kind
    pattern: re.Pattern[str]
    where: Where = "edges"


def rule(name: str, kind: Kind, pattern: str, *, case: bool = False, where: Where = "edges") -> Rule:
    """A rule from a pattern. `case`: capitals matter."""
    return Rule(name, kind, re.compile(pattern, re.MULTILINE | (0 if case else re.IGNORECASE)), where)
