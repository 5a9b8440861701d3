"""A scripted person: asks, objects in words when a reply misses their taste and asks again, says thanks when it fits.

Pure: what is said next depends on the reply, the taste and the random generator that is handed in. The person has no
way to tell the system a reward; all that leaves them is text.
"""

import random
from dataclasses import dataclass
from typing import Literal

from drivetrain.cli.demo.questions import Question
from drivetrain.cli.demo.taste import Taste

PATIENCE = 2
"""How often a person asks again before they give up."""


@dataclass(frozen=True)
class Say:
    """What the person says, and why. `ask` opens a session, `thanks` ends it, `object` asks again."""

    kind: Literal["ask", "object", "thanks"]
    text: str


def opening(question: Question) -> Say:
    """The first message of a session."""
    return Say("ask", question.text)


def react(
    reply: str, question: Question, taste: Taste, objections: int, rng: random.Random, patience: int = PATIENCE
) -> Say | None:
    """What the person says to a reply, after `objections` earlier objections; None when they give up and leave."""
    misses = taste.misses(reply, question.subject)
    if not misses:
        return Say("thanks", rng.choice(taste.thanks()))
    if objections >= patience:
        return None
    wording = rng.choice(taste.objections(misses[0].kind))
    return Say("object", wording.format(question=question.text, subject=question.subject.many))
