"""What the judge makes of a turn, and of a rollout."""

from typing import ClassVar

import msgspec

from drivetrain.common.events.base import Event, shard_of
from drivetrain.common.events.rollouts import FinishReason, RolloutRef


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a vote by a rubric says of one criterion, in [-1, 1]; None: the criterion does not apply."""

    criterion: str
    value: float | None
    evidence: str
    weight: float = 1.0


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """One source's opinion of a turn, in [-1, 1], with the span or exit code that it relied on. `criteria` are what a
    vote by a rubric is the weighted mean of."""

    source: str
    value: float
    evidence: str
    weight: float = 1.0
    confidence: float = 1.0
    criteria: list[Verdict] = []


class TurnScored(Event, frozen=True, kw_only=True):
    """A judged turn, as of its n-th next state or signal, by the judge of that id: several may score the same turns.

    `reward` is None when no source could tell (`unresolved`): such a turn is kept and never trained. `hints` are
    at most three sentences of hindsight, shortest first. `seen` counts the next states and signals that it was made
    from: of two scores of a turn by one judge the one that saw more holds, whichever was stored first.
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
    seen: int = 0
    trainable: bool = True
    rollout: RolloutRef | None = None
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [shard_of(self.session, shards), self.policy, self.session, self.turn, self.judge, str(self.n)]


class RolloutScored(Event, frozen=True, kw_only=True):
    """What one rollout of a group came to, also one without a turn (it counts in the group's baseline).

    `outcome` is the verifier's, or its place in the ranking of its group, in [-1, 1], with its evidence in `votes`;
    None where nobody could tell, then `reason` says why. `turns` are the rollout's main turns in the order in which
    they began. A turn that is recorded later, or another outcome, gives another revision: the highest `n` holds.
    """

    STREAM: ClassVar[str] = "SCORES"
    PREFIX: ClassVar[str] = "rollout.scored"

    policy: str
    session: str
    rollout: RolloutRef
    judge: str
    n: int
    outcome: float | None
    reason: FinishReason
    turns: list[str]
    votes: list[Vote] = []
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.policy, self.rollout.run, self.rollout.group, self.rollout.rollout, self.judge, str(self.n)]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rollout came in the ranking of its group: `place` from 1 (best), the mean of their places for equals;
    None where it was not compared. `reward` lies in [-1, 1]; those of a group add up to 0."""

    rollout: str
    session: str
    reason: FinishReason
    place: float | None = None
    reward: float | None = None
    evidence: str = ""


class GroupRanked(Event, frozen=True, kw_only=True):
    """How the rollouts of a group without a verifier compare, as a judge model saw them. Each judge ranks a group
    once."""

    STREAM: ClassVar[str] = "SCORES"
    PREFIX: ClassVar[str] = "group.ranked"

    policy: str
    run: str
    group: str
    group_size: int
    judge: str
    standings: list[Standing]
    detail: str = ""
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.policy, self.run, self.group, self.judge]
