"""Cues of a clause in Chinese, where nothing marks the words: patterns over the characters of a clause."""

import functools
import re
from collections.abc import Sequence

from drivetrain.judge.lexicon import Phrase
from drivetrain.judge.lexicon.chinese import (
    APPROVALS,
    ASIDES,
    DOUBTS,
    MOVES_ON,
    OBJECTIONS,
    QUESTION,
    REQUESTS,
    TURN,
    WISHES,
)
from drivetrain.judge.reading.cues import Cue
from drivetrain.judge.text import Clause

_SPACES = re.compile(r"\s+")
_STOPS = re.compile(r"[。！!.…~～，,；;：:、]+$")
_DOUBLED = re.compile(r"^(.{2,4})\1+$")
_NEGATIONS = ("不", "没", "没有", "别", "未", "不太", "不够", "不是很", "不怎么")
_MARKS = re.compile(r"[\s，,。.！!？?；;：:、~…]+")
_PARTICLES = re.compile(r"^(?:请问|请|再|那|你|我想问|我问的是|我是问|所以)+|(?:啊|呀|呢|吗|嘛|吧|了|一下)+$")
LEAST = 5
"""Characters of a question that can be recognised when it is asked again."""
LONGEST = 120


def prepare() -> None:
    """Compile what every clause is held against, so that the first message does not wait for it."""
    for phrase in (*ASIDES, *APPROVALS, *OBJECTIONS, *DOUBTS, *REQUESTS, *WISHES):
        _compiled(phrase.pattern)


def cues(clause: Clause) -> list[Cue]:
    """The cues of a clause. A question counts only if it doubts, objects, or asks for another form."""
    found, rest = _asides(_text(clause), clause)
    if asks(clause):
        return found + _match(rest, DOUBTS, clause) + _match(rest, REQUESTS, clause)
    if _compiled(MOVES_ON).search(_text(clause)):
        return found
    approvals = [cue for cue in found if cue.value > 0] + _match(rest, APPROVALS, clause)
    objections = _match(rest, OBJECTIONS, clause)
    if not any(not cue.weak for cue in approvals) or _compiled(TURN).search(rest):
        objections += _match(rest, WISHES, clause)
    strong = any(not cue.weak for cue in objections)
    return [cue for cue in found if cue.value <= 0] + objections + ([] if strong else approvals)


def asks(clause: Clause) -> bool:
    """Whether a clause is a question, also without a mark."""
    return clause.asks or _compiled(QUESTION).search(_text(clause)) is not None


def repeated(text: str, earlier: Sequence[str], clauses: Sequence[Clause]) -> list[Cue]:
    """The cue of a message that asks word for word what was asked before."""
    now, before = _bare(text), _bare(earlier[-1]) if earlier else ""
    again = len(before) >= LEAST and before in now and any(clause.han for clause in clauses)
    return [Cue("restated", -1, False, clauses[-1])] if again else []


def _text(clause: Clause) -> str:
    return _DOUBLED.sub(r"\1", _STOPS.sub("", _SPACES.sub("", clause.raw.lower()))[:LONGEST])


def _asides(text: str, clause: Clause) -> tuple[list[Cue], str]:
    """What the idioms say, and what is left of the clause without them."""
    found: list[Cue] = []
    for phrase in ASIDES:
        text, count = _compiled(phrase.pattern).subn("", text)
        if count and (phrase.value or phrase.kind == "retraction"):
            found.append(Cue(phrase.kind, phrase.value, phrase.weak, clause))
    return found, text


def _match(text: str, phrases: Sequence[Phrase], clause: Clause) -> list[Cue]:
    return [
        Cue(phrase.kind, phrase.value, phrase.weak, clause)
        for phrase in phrases
        if (match := _compiled(phrase.pattern).search(text))
        and not (phrase.value > 0 and text[: match.start()].endswith(_NEGATIONS))
    ]


def _bare(text: str) -> str:
    return _PARTICLES.sub("", _MARKS.sub("", text[:2000]))


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
