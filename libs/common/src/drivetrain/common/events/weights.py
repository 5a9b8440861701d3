"""The life of a checkpoint, from the trainer's announcement to what each replica serves."""

from typing import ClassVar

from drivetrain.common.events.base import Event


class _Weights(Event, frozen=True, kw_only=True):
    STREAM: ClassVar[str] = "WEIGHTS"

    policy: str
    version: int
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.policy, str(self.version)]


class WeightsCandidate(_Weights, frozen=True, kw_only=True):
    """A complete checkpoint awaits promotion. `digest` is the sha256 of its manifest."""

    PREFIX: ClassVar[str] = "weights.candidate"

    parent: int
    digest: str
    step: int
    metrics: dict[str, float] = {}


class WeightsHeld(_Weights, frozen=True, kw_only=True):
    """A candidate was refused; the last promoted version keeps serving."""

    PREFIX: ClassVar[str] = "weights.held"

    reason: str


class WeightsPromoted(_Weights, frozen=True, kw_only=True):
    """Every replica in rotation serves this version, and proved it."""

    PREFIX: ClassVar[str] = "weights.promoted"

    replicas: list[str]


class WeightsRolledback(_Weights, frozen=True, kw_only=True):
    """This version was promoted and is withdrawn; `to` serves again."""

    PREFIX: ClassVar[str] = "weights.rolledback"

    to: int
    reason: str


class WeightsRollback(_Weights, frozen=True, kw_only=True):
    """Somebody asks that `version` serve again, and what was promoted after it be withdrawn. `id` tells requests
    apart."""

    PREFIX: ClassVar[str] = "weights.rollback"

    id: str
    reason: str

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.policy, str(self.version), self.id]


class WeightsLoaded(_Weights, frozen=True, kw_only=True):
    """One replica loaded a version: how long it took, and how far its probe was from the trainer's (nats, mean)."""

    PREFIX: ClassVar[str] = "weights.loaded"

    replica: str
    seconds: float
    probe_gap: float | None = None

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.policy, str(self.version), self.replica]
