"""What the proxy keeps of one replica: its load, its health and the weights it serves."""

from drivetrain.proxy.metrics import REPLICA_FAILURES, REPLICA_HEALTHY, REPLICA_IN_FLIGHT, REPLICA_VERSION
from drivetrain.proxy.routing.choice import Seen


class Replica:
    """One vLLM server of one policy. It counts as unhealthy until a probe has seen it."""

    def __init__(self, policy: str, url: str) -> None:
        self.url = url
        self.in_flight = 0
        self.healthy = False
        self.version: int | None = None
        self._labels = (policy, url)
        self.saw(healthy=False, version=None)

    @property
    def seen(self) -> Seen:
        """The replica as the choice sees it."""
        return Seen(self.url, self.in_flight, self.healthy, self.version)

    def took(self, requests: int) -> None:
        """One more request in flight, or (-1) one less."""
        self.in_flight += requests
        REPLICA_IN_FLIGHT.labels(*self._labels).set(self.in_flight)

    def saw(self, *, healthy: bool, version: int | None) -> None:
        """What a probe found."""
        self.healthy, self.version = healthy, version
        REPLICA_HEALTHY.labels(*self._labels).set(healthy)
        REPLICA_VERSION.labels(*self._labels).set(-1 if version is None else version)

    def failed(self) -> None:
        """A request failed here: others come first until a probe finds it well."""
        self.healthy = False
        REPLICA_FAILURES.labels(*self._labels).inc()
        REPLICA_HEALTHY.labels(*self._labels).set(0)
