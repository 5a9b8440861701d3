"""What one way of speaking says of the reply."""

from typing import Literal, NamedTuple

Kind = Literal[
    "approval", "neutral", "complaint", "mismatch", "redo", "instruction", "preference", "doubt", "retraction", "remark"
]


class Phrase(NamedTuple):
    """A way of speaking: what it says of the reply (+1, -1, or 0: nothing), whether other cues can outweigh it
    (`weak`), whether its clause has to be about the reply ("this is bad", not "I have a bad cold"), and whether it
    has to be a question."""

    kind: Kind
    pattern: str
    value: int = -1
    weak: bool = False
    about: bool = False
    asks: bool = False
