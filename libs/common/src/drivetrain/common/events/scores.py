"""What the judge makes of a turn, and of a rollout."""

from typing import ClassVar

import msgspec

from drivetrain.common.events.base import Event, shard_of
from drivetrain.common.events.rollouts import FinishReason, RolloutRef


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """One source's opinion of a turn, in [-1, 1], with the span or exit code that it relied on."""

    source: str
    value: float
    evidence: str
    weight: float = 1.0
    confidence: float = 1.0


class TurnScored(Event, frozen=True, kw_only=True):
    """A judged turn, as of its n-th next state or signal, by the judge of that id: several may score the same turns.

    `reward` is None when no source could tell (`unresolved`): such a turn is kept and never trained. `hints` are
    at most three sentences of hindsight, shortest first.
    """

    STREAM: ClassVar[str] = "SCORES"
    PREFIX: ClassVar[str] = "turn.scored"

    tenant: str
    policy: str
    session: str
    turn: str
    n: int
    judge: str
    reward: float | None
    votes: list[Vote]
    hints: list[str]
    trainable: bool = True
    rollout: RolloutRef | None = None
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [shard_of(self.session, shards), self.policy, self.session, self.turn, self.judge, str(self.n)]


class RolloutScored(Event, frozen=True, kw_only=True):
    """The outcome of one rollout of a group, also of one without a turn (it counts in the group's baseline)."""

    STREAM: ClassVar[str] = "SCORES"
    PREFIX: ClassVar[str] = "rollout.scored"

    policy: str
    session: str
    rollout: RolloutRef
    outcome: float | None
    reason: FinishReason
    turns: list[str]
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.policy, self.rollout.run, self.rollout.group, self.rollout.rollout]
