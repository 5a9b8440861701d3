"""What the proxy counts; labels are bounded sets."""

from drivetrain.common.telemetry.metrics import Metrics

_metrics = Metrics("proxy")

REQUESTS = _metrics.counter("requests", "Requests by endpoint and HTTP status", ["endpoint", "status"])
TURNS = _metrics.counter("turns", "Recorded turns by how they finished", ["finish"])
DRIFT = _metrics.counter("drift", "Prompts by how they continue recorded tokens, and why", ["drift", "cause"])
INEXACT = _metrics.counter("inexact_turns", "Recorded turns whose logprobs a ratio loss must not use")
NOT_RECORDED = _metrics.counter("turns_not_recorded", "Turns that were answered but could not be recorded", ["reason"])
FIRST_TOKEN = _metrics.histogram("first_token_seconds", "From the request's arrival to the engine's first token")
OVERHEAD = _metrics.histogram("overhead_seconds", "The proxy's own time before the engine is asked")
IN_FLIGHT = _metrics.gauge("in_flight_requests", "Replies in progress")
REPLICA_IN_FLIGHT = _metrics.gauge("replica_in_flight_requests", "Requests at each replica", ["policy", "replica"])
REPLICA_HEALTHY = _metrics.gauge(
    "replica_healthy", "1 if the last probe or request found it well", ["policy", "replica"]
)
REPLICA_VERSION = _metrics.gauge("replica_version", "The weights served; -1 while unknown", ["policy", "replica"])
REPLICA_FAILURES = _metrics.counter("replica_failures", "Requests that a replica did not answer", ["policy", "replica"])
QUEUE = _metrics.gauge("queued_requests", "Requests that wait for a place at a replica", ["policy"])
QUEUE_WAIT = _metrics.histogram("queue_seconds", "How long those waited that had to", ["policy"])
BUSY = _metrics.counter("busy_requests", "Requests sent away: the queue full, or waited too long", ["policy", "reason"])
BACKLOG = _metrics.gauge("spool_backlog_bytes", "Spooled bytes that the bus does not have yet")
INDEX_ERRORS = _metrics.counter("session_index_errors", "Times Redis did not answer and the local cache had to do")
REBUILDS = _metrics.counter("session_index_rebuilds", "Times this replica rebuilt the index from the stream of turns")
IDLE = _metrics.counter("idle_turns", "Turns that this replica closed because nothing followed them")
LIMITED = _metrics.counter("rate_limited_requests", "Requests beyond what their key may use in a minute", ["limit"])
CUT_OFF = _metrics.counter("connections_cut_off", "Connections ended for what came too slowly or too large", ["what"])
