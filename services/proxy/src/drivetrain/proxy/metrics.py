"""What the proxy counts; labels are bounded sets."""

from drivetrain.common.telemetry.metrics import Metrics

_metrics = Metrics("proxy")

REQUESTS = _metrics.counter("requests", "Requests by endpoint and HTTP status", ["endpoint", "status"])
TURNS = _metrics.counter("turns", "Recorded turns by how they finished", ["finish"])
DRIFT = _metrics.counter("drift", "Prompts by how they continue recorded tokens", ["cause"])
INEXACT = _metrics.counter("inexact_turns", "Recorded turns whose logprobs a ratio loss must not use")
NOT_RECORDED = _metrics.counter("turns_not_recorded", "Turns that were answered but could not be recorded", ["reason"])
FIRST_TOKEN = _metrics.histogram("first_token_seconds", "From the request's arrival to the engine's first token")
OVERHEAD = _metrics.histogram("overhead_seconds", "The proxy's own time before the engine is asked")
IN_FLIGHT = _metrics.gauge("in_flight_requests", "Replies in progress")
BACKLOG = _metrics.gauge("spool_backlog_bytes", "Spooled bytes that the bus does not have yet")
INDEX_ERRORS = _metrics.counter("session_index_errors", "Times Redis did not answer and the local cache had to do")
