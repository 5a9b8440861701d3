"""Evidence from outside the model: a person's explicit feedback, a verifier's outcome."""

from typing import ClassVar, Literal

from drivetrain.common.events.base import Event, shard_of
from drivetrain.common.events.rollouts import FinishReason, RolloutRef, VerifierFault


class Signal(Event, frozen=True, kw_only=True):
    """Feedback on one turn (`turn`; None means the session's last reply), or the outcome of a whole rollout.

    `value` lies in [-1, 1]; `text` is what the person wrote. A rollout's `reason` says how it ended, and
    `rewards` and `fault` what its verifier wrote, as in `RolloutFinished`.
    """

    STREAM: ClassVar[str] = "SIGNALS"
    PREFIX: ClassVar[str] = "signal"

    kind: Literal["feedback", "outcome"]
    tenant: str
    policy: str
    session: str
    id: str
    turn: str | None = None
    value: float | None = None
    text: str = ""
    rollout: RolloutRef | None = None
    reason: FinishReason | None = None
    rewards: dict[str, float] = {}
    fault: VerifierFault | None = None
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.kind, shard_of(self.session, shards), self.policy, self.session, self.id]
