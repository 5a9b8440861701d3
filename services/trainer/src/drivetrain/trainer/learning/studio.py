"""The model in training, with what trains it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drivetrain.common.store import Probe
from drivetrain.trainer.learning.learner import Learner
from drivetrain.trainer.model.policy import CausalPolicy


@dataclass(frozen=True)
class Studio:
    """`fresh` loads the base model anew, `probe_ids` are the manifests' probe, `rate` is the learning rate of each step
    of the lineage."""

    model: CausalPolicy
    learner: Learner
    fresh: Callable[[], CausalPolicy]
    probe_ids: Sequence[int]
    rate: Callable[[int], float]

    def back_to_base(self) -> None:
        """Make the model what it was before any training, and forget what the optimiser knew."""
        self.model.load_trainable(self.fresh().trainable())
        self.learner.optimizer.state.clear()

    def probe(self) -> Probe:
        """What the weights answer now."""
        return Probe(list(self.probe_ids), self.model.probe(self.probe_ids))
