"""The life of a rollout: requested by a person or the trainer, started and finished by the orchestrator."""

from typing import ClassVar, Literal

import msgspec

from drivetrain.common.events.base import Event

FinishReason = Literal[
    "success", "failure", "timeout", "context_overflow", "harness_crash", "infrastructure", "cancelled"
]

RolloutState = Literal["starting", "running", "grading", "waiting"]
"""Between its request and its end: a sandbox is made, the harness works, its work is graded; or an attempt came to
nothing for no fault of the harness, and the next one waits."""

VerifierFault = Literal["hung", "killed", "not_started", "no_reward", "bad_reward", "too_large"]
"""Why a verifier said nothing: it did not end in time, was killed, could not be started, wrote no reward, wrote what is
no number from 0 to 1, or wrote more than a reward."""


class RolloutRef(msgspec.Struct, frozen=True, kw_only=True):
    """Which rollout, of which group (the rollouts of one task that are compared) of which run."""

    run: str
    group: str
    rollout: str
    group_size: int = 1


class RolloutRequested(Event, frozen=True, kw_only=True):
    """Run one task once with one harness. `task` holds the keys of a task file (docs/tasks.md)."""

    STREAM: ClassVar[str] = "ROLLOUTS"
    PREFIX: ClassVar[str] = "rollout.requested"

    rollout: RolloutRef
    policy: str
    task: dict[str, object]
    timeout_s: float
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.rollout.run, self.rollout.rollout]


class RolloutStarted(Event, frozen=True, kw_only=True):
    """The rollout is taken up; the model calls of its first attempt carry this session."""

    STREAM: ClassVar[str] = "ROLLOUTS"
    PREFIX: ClassVar[str] = "rollout.started"

    rollout: RolloutRef
    policy: str
    session: str
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.rollout.run, self.rollout.rollout]


class RolloutMoved(Event, frozen=True, kw_only=True):
    """An attempt at a rollout reached a state. `session` is the attempt's own; `detail` says why it waits."""

    STREAM: ClassVar[str] = "ROLLOUTS"
    PREFIX: ClassVar[str] = "rollout.moved"

    rollout: RolloutRef
    policy: str
    session: str
    attempt: int
    state: RolloutState
    detail: str = ""
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.rollout.run, self.rollout.rollout, str(self.attempt), self.state]


class RolloutCancel(Event, frozen=True, kw_only=True):
    """Somebody wants this rollout to end, wherever it stands."""

    STREAM: ClassVar[str] = "ROLLOUTS"
    PREFIX: ClassVar[str] = "rollout.cancel"

    rollout: RolloutRef
    detail: str = ""
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.rollout.run, self.rollout.rollout]


class RolloutFinished(Event, frozen=True, kw_only=True):
    """How the rollout ended: a typed reason, the verifier's outcome in [-1, 1], and the seconds it took.

    `rewards` are what the verifier wrote, as it wrote them: `reward` in [0, 1], which is the outcome on another scale
    (0 is -1, 1 is 1), and scores of other names beside it. A verifier that says nothing has a `fault`, and no outcome.
    `session`, `seconds` and `log`, the end of what the harness printed, are those of the last of its `attempts`.
    """

    STREAM: ClassVar[str] = "ROLLOUTS"
    PREFIX: ClassVar[str] = "rollout.finished"

    rollout: RolloutRef
    policy: str
    session: str
    reason: FinishReason
    outcome: float | None
    rewards: dict[str, float] = {}
    fault: VerifierFault | None = None
    detail: str = ""
    log: str = ""
    attempts: int = 1
    seconds: float
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.rollout.run, self.rollout.rollout]
