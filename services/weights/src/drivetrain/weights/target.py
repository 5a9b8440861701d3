"""What a replica is to serve: a version's weights, what proves them, and for an adapter the weights below it."""

from dataclasses import dataclass

from drivetrain.common.store.checkpoints import Probe
from drivetrain.weights.engines.base import Serving, Weights


@dataclass(frozen=True)
class Target:
    """The base model has no probe; full weights have no base."""

    weights: Weights
    probe: Probe | None
    base: "Target | None" = None

    @property
    def version(self) -> int:
        return self.weights.version

    @property
    def key(self) -> int | str:
        """What a replica shows that serves it: a label, or an adapter's name."""
        return self.weights.name or self.version

    def shown_by(self, serving: Serving) -> bool:
        """Whether a replica says that it serves this."""
        below = self.base.version if self.base else self.version
        named = self.weights.name is None or self.weights.name in serving.adapters
        return not serving.paused and serving.version == below and named
