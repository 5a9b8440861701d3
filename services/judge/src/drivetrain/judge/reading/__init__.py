"""Read what a person writes after a reply: which clauses approve, which object, which tell the assistant what to do.

Pure: the phrases of `lexicon` against each clause, no list of sentences, no model. `english` and `chinese` read a
clause by the language it is in, `grounds` holds it against the reply, `verdict` adds up.
"""

from collections.abc import Sequence

from drivetrain.judge.reading import chinese, english
from drivetrain.judge.reading.cues import DIRECTIVE, Cue, Reading
from drivetrain.judge.reading.grounds import Grounds
from drivetrain.judge.reading.matching import matches
from drivetrain.judge.reading.subject import content_words
from drivetrain.judge.reading.verdict import emoji, verdict
from drivetrain.judge.text import Clause, bounded, clauses_of

__all__ = ["DIRECTIVE", "Cue", "Reading", "matches", "prepare", "read"]

MOST_CLAUSES = 40
MOST_EARLIER = 10


def read(text: str, earlier: Sequence[str] = (), reply: str = "") -> Reading:
    """Read a person's message; `earlier` are the messages that the reply answered.

    An objection outweighs thanks in the same message. A bare remark on form ("one sentence") is a wish by itself and
    a compliment beside thanks.
    """
    clauses = _some(clauses_of(bounded(text)))
    asked = _some([clause for message in earlier[-MOST_EARLIER:] for clause in clauses_of(bounded(message))])
    grounds = Grounds.of(earlier[-1] if earlier else "", reply)
    scene = english.Scene.of(asked)
    cues = [cue for clause in clauses for cue in _cues(clause, scene, grounds)]
    cues = [cue for cue in cues if not (cue.weak and cue.value < 0 and grounds.asking)]
    cues += chinese.repeated(text, earlier, clauses)
    cues += emoji(text)
    moves_on = any(chinese.asks(c) if c.han else c.asks and content_words(c) - scene.known for c in clauses)
    return Reading(tuple(cues), tuple(clauses), verdict(cues, moves_on=moves_on))


def prepare() -> None:
    """Do what the first message would have to wait for."""
    english.prepare()
    chinese.prepare()


def _cues(clause: Clause, scene: english.Scene, grounds: Grounds) -> list[Cue]:
    cues = chinese.cues(clause) if clause.han else english.cues(clause, scene)
    return cues + [cue for cue in grounds.cues(clause) if cue.kind not in {found.kind for found in cues}]


def _some(clauses: Sequence[Clause]) -> list[Clause]:
    """The first and last clauses of a long message: people react there, and what lies between is material."""
    half = MOST_CLAUSES // 2
    return list(clauses) if len(clauses) <= MOST_CLAUSES else [*clauses[:half], *clauses[-half:]]
