"""Explicit feedback: a thumb, a score or words, for one reply or the last one of a session."""

import re
from typing import Annotated, Literal

import msgspec

from drivetrain.common.events import Signal
from drivetrain.common.identity import new_id
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.turns import KnownTurn

_PREFIX = re.compile("^(chatcmpl-|cmpl-|msg_|resp_)")
"""What dialects put before a turn's id to name a response."""

_THUMBS = {"up": 1.0, "down": -1.0}


class Feedback(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/feedback`.

    `response` is a reply's id (`chatcmpl-…`, `msg_…`, `resp_…`), `turn` the bare turn id, `session` a session's name;
    without any of them the session comes from the path, the header or the rollout key, and its last reply is meant.
    """

    response: str | None = None
    turn: str | None = None
    session: str | None = None
    thumb: Literal["up", "down"] | None = None
    score: Annotated[float, msgspec.Meta(ge=-1, le=1)] | None = None
    text: Annotated[str, msgspec.Meta(max_length=100_000)] = ""

    @property
    def turn_id(self) -> str | None:
        """The turn that is meant, if the body names one."""
        return self.turn or (_PREFIX.sub("", self.response) if self.response else None)

    @property
    def value(self) -> float | None:
        """The opinion in [-1, 1], if one was given."""
        return _THUMBS[self.thumb] if self.thumb else self.score


def read(data: bytes) -> Feedback:
    """
    Raises:
        Refused: malformed, or without any opinion.
    """
    try:
        feedback = msgspec.json.decode(data, type=Feedback)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(400, f"the feedback cannot be read: {error}") from error
    if feedback.thumb and feedback.score is not None:
        raise Refused(400, "give either a thumb or a score, not both", param="thumb")
    if feedback.value is None and not feedback.text.strip():
        raise Refused(400, "give a thumb (up or down), a score in [-1, 1], or text", param="thumb")
    return feedback


def signal(feedback: Feedback, known: KnownTurn, now: float) -> Signal:
    """The feedback as an event about a known turn."""
    return Signal(
        kind="feedback",
        tenant=known.tenant,
        policy=known.policy,
        session=known.session,
        id=new_id(),
        turn=known.turn,
        value=feedback.value,
        text=feedback.text,
        rollout=known.rollout,
        at=now,
    )
