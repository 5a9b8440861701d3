"""From what is known of a rollout to its result. Pure.

Revisions: a result's number n counts all that it was made of (main turns, attempts of them that came to nothing,
outcomes). These only grow, so a result that knows more has a higher number, and a copy of one is refused.
"""

from collections.abc import Sequence

from drivetrain.common.events import RolloutRef, RolloutScored, Signal, TurnFollowed, TurnRecorded
from drivetrain.judge import joins
from drivetrain.judge.sources.outcome import vote_of


def outcome_of(signals: Sequence[Signal], ref: RolloutRef) -> Signal | None:
    """The outcome of a rollout that holds: the latest with a value, else the latest; None while there is none."""
    told = [signal for signal in signals if signal.kind == "outcome" and signal.rollout == ref]
    return max(told, key=lambda signal: (signal.value is not None, signal.at), default=None)


def rollout_scored(
    ref: RolloutRef,
    signals: Sequence[Signal],
    turns: Sequence[TurnRecorded],
    followed: Sequence[TurnFollowed],
    *,
    judge: str,
    at: float,
) -> RolloutScored | None:
    """What a rollout came to, with its main turns, none included; None while no outcome is known. `turns` and
    `followed` are all that is known of its session.

    Raises:
        BadEvent: the outcome does not say how the rollout ended.
    """
    held = outcome_of(signals, ref)
    if held is None:
        return None
    if held.reason is None:
        raise joins.BadEvent("the outcome of a rollout needs a reason")
    mains = joins.main_turns(turns)
    kept = joins.kept(mains, followed)
    outcomes = {signal.id for signal in signals if signal.kind == "outcome" and signal.rollout == ref}
    return RolloutScored(
        policy=held.policy,
        session=held.session,
        rollout=ref,
        judge=judge,
        n=len(mains) + len(mains) - len(kept) + len(outcomes),
        outcome=held.value,
        reason=held.reason,
        turns=[turn.turn for turn in kept],
        votes=[vote for vote in [vote_of(held)] if vote is not None],
        at=at,
    )
