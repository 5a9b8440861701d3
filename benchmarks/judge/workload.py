"""Turns to judge: those of the labelled set, over and over, each in a session of its own."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from drivetrain.common.events import Event, Message, Sampling, TurnFollowed, TurnRecorded
from drivetrain.judge.evaluation.labelled import Labelled

WHO: dict[str, Any] = {"tenant": "bench", "policy": "bench"}


def events_of(labelled: Labelled, session: str, at: float) -> tuple[list[Event], TurnFollowed]:
    """What the proxy says of a turn: its recorded turns (one for all that came before the last question), and its next
    state, which is kept apart: it is what the judge's time is counted from."""
    case = labelled.case(with_history=True)
    parent = "before" if case.history else None
    recorded: list[Event] = []
    if parent is not None:
        recorded.append(_turn(session, parent, None, case.history[:-1], case.history[-1], at))
    recorded.append(_turn(session, "turn", parent, case.before, case.reply, at))
    followed = TurnFollowed(
        **WHO, session=session, turn="turn", n=0, messages=list(case.after), before=list(case.before), reply=case.reply,
        at=at,
    )  # fmt: skip
    return recorded, followed


def sessions(turns: Sequence[Labelled], count: int) -> Iterator[tuple[Labelled, str]]:
    """So many turns in order, from the start again after the last, each with the name of its session."""
    for number, labelled in enumerate(itertools.islice(itertools.cycle(turns), count)):
        yield labelled, f"s{number}"


def _turn(
    session: str, turn: str, parent: str | None, messages: Sequence[Message], reply: Message, at: float
) -> TurnRecorded:
    return TurnRecorded(
        **WHO, session=session, turn=turn, parent=parent, prompt_ids=b"", response_ids=b"", logprobs=b"", versions=[],
        sampling=Sampling(), finish="stop", exact=True, messages=list(messages), reply=reply, started_at=at,
        finished_at=at,
    )  # fmt: skip
