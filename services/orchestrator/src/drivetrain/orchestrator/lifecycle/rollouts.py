"""The life of a rollout as a pure state machine: requested → starting → running → grading → finished.

An attempt that fails for no fault of the harness waits, and starts again as the next one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from drivetrain.common.events import (
    FinishReason,
    RolloutFinished,
    RolloutMoved,
    RolloutRef,
    RolloutStarted,
    RolloutState,
    Signal,
)
from drivetrain.common.events.rollouts import VerifierFault
from drivetrain.common.identity import ROLLOUT_TENANT

State = Literal["requested", RolloutState, "finished"]

NEXT: dict[State, frozenset[State]] = {
    "requested": frozenset({"starting", "finished"}),
    "starting": frozenset({"running", "waiting", "finished"}),
    "running": frozenset({"grading", "waiting", "finished"}),
    "grading": frozenset({"waiting", "finished"}),
    "waiting": frozenset({"starting", "finished"}),
    "finished": frozenset(),
}


class InvalidTransition(RuntimeError):
    """A state that does not follow the present one: an error in this program."""


@dataclass(frozen=True)
class Ending:
    """How a rollout ended. `outcome` lies in [-1, 1]; None means that there is no evidence of how well it went.
    `rewards` are the verifier's own numbers, `fault` says why it gave none. `log` is the end of what the harness
    printed. `again`: it was nobody's fault, and another attempt may go better."""

    reason: FinishReason
    outcome: float | None = None
    detail: str = ""
    rewards: Mapping[str, float] = field(default_factory=dict)
    fault: VerifierFault | None = None
    log: str = ""
    again: bool = False


@dataclass(frozen=True)
class Rollout:
    """One rollout and where it stands. `since` is the unix time at which it was taken up, `session` that of its present
    attempt; attempts count from 1."""

    ref: RolloutRef
    policy: str
    session: str
    since: float
    attempt: int = 1
    state: State = "requested"
    ending: Ending | None = None

    def to(self, state: State) -> "Rollout":
        """The rollout in its next state; use `finish` for the last one."""
        if state not in NEXT[self.state] or state == "finished":
            raise InvalidTransition(f"rollout {self.ref.rollout}: {self.state} cannot become {state}")
        return replace(self, state=state)

    def finish(self, ending: Ending) -> "Rollout":
        """The rollout with its ending; possible from every state but `finished`."""
        if self.state == "finished":
            raise InvalidTransition(f"rollout {self.ref.rollout} has finished already")
        return replace(self, state="finished", ending=ending)


def started_event(rollout: Rollout, now: float) -> RolloutStarted:
    """What tells everyone that this rollout is taken: whoever stores it first runs the rollout."""
    return RolloutStarted(rollout=rollout.ref, policy=rollout.policy, session=rollout.session, at=now)


def moved_event(rollout: Rollout, now: float, detail: str = "") -> RolloutMoved:
    """Where the present attempt stands now."""
    if rollout.state == "requested" or rollout.state == "finished":
        raise InvalidTransition(f"rollout {rollout.ref.rollout}: {rollout.state} has an event of its own")
    return RolloutMoved(
        rollout=rollout.ref,
        policy=rollout.policy,
        session=rollout.session,
        attempt=rollout.attempt,
        state=rollout.state,
        detail=detail,
        at=now,
    )


def outcome_signal(rollout: Rollout, ending: Ending, now: float) -> Signal:
    """The evidence for the judge. Its id is the rollout's, so that a second one is refused by the bus."""
    return Signal(
        kind="outcome",
        tenant=ROLLOUT_TENANT,
        policy=rollout.policy,
        session=rollout.session,
        id=rollout.ref.rollout,
        value=ending.outcome,
        text=ending.detail,
        rollout=rollout.ref,
        reason=ending.reason,
        rewards=dict(ending.rewards),
        fault=ending.fault,
        at=now,
    )


def finished_event(rollout: Rollout, ending: Ending, now: float) -> RolloutFinished:
    """The end of the rollout's life, with the seconds since it was taken up; see `Rollout.finish` for errors."""
    rollout = rollout.finish(ending)
    return RolloutFinished(
        rollout=rollout.ref,
        policy=rollout.policy,
        session=rollout.session,
        reason=ending.reason,
        outcome=ending.outcome,
        rewards=dict(ending.rewards),
        fault=ending.fault,
        detail=ending.detail,
        log=ending.log,
        attempts=rollout.attempt,
        seconds=max(0.0, now - rollout.since),
        at=now,
    )


def ending_from_signal(signal: Signal) -> Ending:
    """The ending that a stored outcome tells of: after a crash between the two events they must agree."""
    return Ending(signal.reason or "infrastructure", signal.value, signal.text, signal.rewards, signal.fault)
