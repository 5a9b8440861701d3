"""The life of a rollout: requested by a person or the trainer, started and finished by the orchestrator."""

from typing import ClassVar, Literal

import msgspec

from drivetrain.common.events.base import Event

FinishReason = Literal["success", "failure", "timeout", "harness_crash", "infrastructure", "cancelled"]


class RolloutRef(msgspec.Struct, frozen=True, kw_only=True):
    """Which rollout, of which group (the rollouts of one task that are compared) of which run."""

    run: str
    group: str
    rollout: str
    group_size: int = 1


class RolloutRequested(Event, frozen=True, kw_only=True):
    """Run one task once with one harness. `task` is the content of a task file (services/orchestrator/README.md)."""

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
    """The rollout's process runs; its model calls carry this session."""

    STREAM: ClassVar[str] = "ROLLOUTS"
    PREFIX: ClassVar[str] = "rollout.started"

    rollout: RolloutRef
    policy: str
    session: str
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.rollout.run, self.rollout.rollout]


class RolloutFinished(Event, frozen=True, kw_only=True):
    """How the rollout ended: a typed reason, the verifier's outcome in [-1, 1], and the seconds it took."""

    STREAM: ClassVar[str] = "ROLLOUTS"
    PREFIX: ClassVar[str] = "rollout.finished"

    rollout: RolloutRef
    policy: str
    session: str
    reason: FinishReason
    outcome: float | None
    detail: str = ""
    seconds: float
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.rollout.run, self.rollout.rollout]
