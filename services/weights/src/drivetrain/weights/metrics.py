"""What the weights service counts."""

from drivetrain.common.telemetry.metrics import Metrics

_metrics = Metrics("weights")

LOAD_SECONDS = _metrics.histogram(
    "load_seconds", "Time to bring a replica to a version, without the probe", ["replica"]
)
PROBE_GAP = _metrics.gauge("probe_gap_nats", "Mean distance of the last probe from the trainer's logprobs", ["replica"])
SERVED = _metrics.gauge("served_version", "The version that a replica serves", ["replica"])
UP = _metrics.gauge("replica_up", "1 while the replica answers and serves the promoted version", ["replica"])
FETCHED_BYTES = _metrics.counter("fetched_bytes", "Bytes that came to a replica out of the archive", ["replica"])
PROMOTED = _metrics.gauge("promoted_version", "The last promoted version")
FAILURES = _metrics.counter("replica_failures", "Failed attempts on a replica by kind", ["replica", "kind"])
DECISIONS = _metrics.counter("decisions", "Candidates by what became of them", ["decision"])
ARCHIVED_BYTES = _metrics.counter("archived_bytes", "Bytes stored in the archive by kind of version", ["kind"])
ARCHIVE_FAILURES = _metrics.counter(
    "archive_failures", "What failed in the archive: store, checkpoint or collect", ["what"]
)
