"""What the orchestrator counts."""

from drivetrain.common.telemetry.metrics import Metrics

_metrics = Metrics("orchestrator")

RUNNING = _metrics.gauge("rollouts_running", "Rollouts that hold a slot now")
QUEUED = _metrics.gauge("rollouts_waiting", "Rollouts that wait for a slot, for the trainer or for a retry")
FINISHED = _metrics.counter("rollouts_finished", "Rollouts by the reason of their end", ["reason"])
SECONDS = _metrics.histogram(
    "rollout_seconds",
    "Time from taking a request up to the end of the rollout",
    ["reason"],
    buckets=(0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0),
)
REFUSED = _metrics.counter("requests_refused", "Requests whose task cannot be run")
REDELIVERED = _metrics.counter("requests_redelivered", "Requests of rollouts that are known already")
