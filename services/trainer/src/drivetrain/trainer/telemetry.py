"""What the trainer reports of itself."""

from collections.abc import Mapping

from drivetrain.common.telemetry.metrics import Metrics
from drivetrain.trainer.samples.samples import Reason

STEP_SECONDS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class Meters:
    """The trainer's metrics; one instance a process."""

    def __init__(self) -> None:
        metrics = Metrics("trainer")
        self._dropped = metrics.counter("dropped_turns", "Scored turns that were not trained, by reason", ["reason"])
        self._no_teacher = metrics.counter("no_teacher", "Hints that had no place in the prompt", ["reason"])
        self._trained = metrics.counter("trained_turns", "Turns that went into an optimiser step")
        self._steps = metrics.counter("steps", "Batches by result", ["result"])
        self._step_values = metrics.gauge("step_value", "Last optimiser step's figures, by name", ["name"])
        self._step_seconds = metrics.histogram("step_seconds", "Seconds of an optimiser step", buckets=STEP_SECONDS)
        self._save_seconds = metrics.histogram("save_seconds", "Seconds to write a checkpoint", buckets=STEP_SECONDS)
        self._waiting = metrics.gauge("waiting_turns", "Turns that wait for a batch")
        self._version = metrics.gauge("version_number", "Version of the weights in training")
        self._awaiting = metrics.gauge("awaiting_candidates", "Candidates that await promotion")

    def dropped(self, reason: Reason, turns: int = 1) -> None:
        self._dropped.labels(reason).inc(turns)

    def no_teacher(self, reason: str) -> None:
        self._no_teacher.labels(reason).inc()

    def stands(self, waiting: int, version: int, awaiting: int) -> None:
        """Report turns that wait, the version of the weights in training, and candidates that await promotion."""
        self._waiting.set(waiting)
        self._version.set(version)
        self._awaiting.set(awaiting)

    def stepped(self, result: str, turns: int, values: Mapping[str, float], seconds: float) -> None:
        """Report an optimiser step: `result` is `trained`, `skipped` or `rejected`."""
        self._steps.labels(result).inc()
        self._step_seconds.observe(seconds)
        if result == "trained":
            self._trained.inc(turns)
        for name, value in values.items():
            self._step_values.labels(name).set(value)

    def saved(self, seconds: float) -> None:
        self._save_seconds.observe(seconds)
