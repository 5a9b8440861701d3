"""From events to cases, and from judgements to events. Pure.

Revisions: every score of a turn has its own number n, derived from its cause alone, so that any replica publishes
the same subject and a copy is refused. The n-th next state gives revision n (below 1,000,000), a signal gives
1,000,000 + crc32(its id): a later, better informed score never takes the place of an earlier one.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import replace

from drivetrain.common.events import Message, Signal, TurnFollowed, TurnRecorded, TurnScored
from drivetrain.judge.chain import Judgement
from drivetrain.judge.sources.base import Case

SIGNAL_REVISIONS = 1_000_000


class BadEvent(ValueError):
    """An event that is well-formed and cannot be judged; the message names the field."""


def revision_of(signal: Signal) -> int:
    """The revision that a signal gives to the score of a turn."""
    return SIGNAL_REVISIONS + zlib.crc32(signal.id.encode())


def check_followed(followed: TurnFollowed) -> None:
    """Raises BadEvent: its n lies among the revisions of signals, or is negative."""
    if not 0 <= followed.n < SIGNAL_REVISIONS:
        raise BadEvent(f"n must lie in [0, {SIGNAL_REVISIONS}), got {followed.n}")


def check_signal(signal: Signal) -> None:
    """Raises BadEvent: a value outside [-1, 1], nothing said, or an outcome of a rollout without its reason."""
    if signal.value is not None and not (math.isfinite(signal.value) and -1 <= signal.value <= 1):
        raise BadEvent(f"value must lie in [-1, 1], got {signal.value}")
    if signal.kind == "feedback" and signal.value is None and not signal.text.strip():
        raise BadEvent("feedback needs a value or a text")
    if signal.kind == "outcome" and signal.rollout is not None and signal.reason is None:
        raise BadEvent("the outcome of a rollout needs a reason")


def trainable(turn: TurnRecorded) -> bool:
    """Whether a turn may train: a main turn, sampled exactly, finished, and with consent."""
    return turn.kind == "main" and turn.exact and turn.finish not in ("aborted", "error") and turn.consent == "train"


def main_turns(turns: Sequence[TurnRecorded]) -> list[TurnRecorded]:
    """The main turns of a session, in the order in which they began."""
    return sorted((t for t in turns if t.kind == "main"), key=lambda turn: (turn.started_at, turn.turn))


def kept(turns: Sequence[TurnRecorded], followed: Sequence[TurnFollowed]) -> list[TurnRecorded]:
    """The turns without attempts that came to nothing: superseded, and never continued by any messages."""
    superseded = {state.turn for state in followed if state.kind == "superseded"}
    superseded -= {state.turn for state in followed if state.kind == "messages"}
    return [turn for turn in turns if turn.turn not in superseded]


def last_turn(turns: Sequence[TurnRecorded], at: float) -> TurnRecorded | None:
    """The reply that feedback without a turn means: the last one finished by then, else the last of all."""
    ordered = sorted(main_turns(turns), key=lambda turn: turn.finished_at)
    finished = [turn for turn in ordered if turn.finished_at <= at]
    return finished[-1] if finished else ordered[-1] if ordered else None


def concerns(signal: Signal, turn: str, turns: Sequence[TurnRecorded]) -> bool:
    """Whether a signal of the session is about this turn; `turns` matter for feedback that names none."""
    if signal.turn is not None or signal.kind == "outcome":
        return signal.turn in (None, turn)
    meant = last_turn(turns, signal.at)
    return meant is not None and meant.turn == turn


def history_of(turn: str, turns: Sequence[TurnRecorded]) -> tuple[Message, ...]:
    """The messages along the chain of parents before a turn, oldest first, each parent's reply included."""
    known = {recorded.turn: recorded for recorded in turns}
    messages: list[Message] = []
    seen = {turn}
    parent = known[turn].parent if turn in known else None
    while parent in known and parent not in seen:
        seen.add(parent)
        messages[:0] = [*known[parent].messages, known[parent].reply]
        parent = known[parent].parent
    return tuple(messages)


def later_than(turn: str, turns: Sequence[TurnRecorded]) -> int:
    """How many main turns began after this one."""
    ordered = [recorded.turn for recorded in main_turns(turns)]
    return len(ordered) - 1 - ordered.index(turn) if turn in ordered else 0


def case_of(followed: TurnFollowed, signals: Sequence[Signal] = ()) -> Case:
    """The case that a next state makes, with the signals that concern the turn."""
    after = tuple(followed.messages)
    return Case(tuple(followed.before), followed.reply, after, signals=tuple(signals), policy=followed.policy)


def case_of_turn(turn: TurnRecorded, followed: Sequence[TurnFollowed], signals: Sequence[Signal]) -> Case:
    """The case of a recorded turn with all the next states known of it."""
    after = [message for state in sorted(followed, key=lambda state: state.n) for message in state.messages]
    return Case(tuple(turn.messages), turn.reply, tuple(after), signals=tuple(signals), policy=turn.policy)


def in_session(case: Case, turn: str, turns: Sequence[TurnRecorded]) -> Case:
    """The case with what the other turns of its session say."""
    return replace(case, history=history_of(turn, turns), later=later_than(turn, turns))


def scored(
    turn: TurnFollowed | TurnRecorded,
    n: int,
    judgement: Judgement,
    *,
    judge: str,
    seen: int,
    may_train: bool,
    at: float,
) -> TurnScored:
    """The score of a turn as an event, made from `seen` next states and signals."""
    return TurnScored(
        tenant=turn.tenant,
        policy=turn.policy,
        session=turn.session,
        turn=turn.turn,
        n=n,
        judge=judge,
        reward=judgement.reward,
        votes=list(judgement.votes),
        hints=list(judgement.hints),
        seen=seen,
        trainable=may_train,
        rollout=turn.rollout,
        at=at,
    )
