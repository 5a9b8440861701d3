"""Prometheus metrics under one naming scheme: `drivetrain_<service>_<what>_<unit>`.

Labels are bounded sets (a reason, a policy, a replica), never ids of sessions or turns.
"""

from collections.abc import Sequence

from prometheus_client import Counter, Gauge, Histogram

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Metrics:
    """The metrics of one service: `Metrics("judge").counter("votes", "Votes by source", ["source", "result"])`."""

    def __init__(self, service: str) -> None:
        self._namespace = f"drivetrain_{service}"

    def counter(self, name: str, documentation: str, labels: Sequence[str] = ()) -> Counter:
        """A count of events; `_total` is appended to the name."""
        return Counter(name, documentation, labels, namespace=self._namespace)

    def gauge(self, name: str, documentation: str, labels: Sequence[str] = ()) -> Gauge:
        """A value that goes up and down; the name ends in its unit."""
        return Gauge(name, documentation, labels, namespace=self._namespace)

    def histogram(
        self, name: str, documentation: str, labels: Sequence[str] = (), buckets: Sequence[float] = LATENCY_BUCKETS
    ) -> Histogram:
        """A distribution; the name ends in its unit, by default with buckets for seconds."""
        return Histogram(name, documentation, labels, namespace=self._namespace, buckets=buckets)
