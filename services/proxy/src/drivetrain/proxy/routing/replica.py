"""What the proxy keeps of one replica: its load, its health and the weights it serves."""

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.metrics import REPLICA_FAILURES, REPLICA_HEALTHY, REPLICA_IN_FLIGHT, REPLICA_VERSION
from drivetrain.proxy.routing.choice import Seen

_log = get_logger("routing")


class Replica:
    """One vLLM server of one policy. It counts as unhealthy until a probe has seen it."""

    def __init__(self, policy: str, url: str) -> None:
        self.url = url
        self.in_flight = 0
        self.healthy = False
        self.version: int | None = None
        self._out = ""
        self._posted: frozenset[int] = frozenset()
        self._labels = (policy, url)
        self.saw(healthy=False, version=None)

    @property
    def seen(self) -> Seen:
        """The replica as the choice sees it."""
        versions = self._posted if self.version is None else self._posted | {self.version}
        return Seen(self.url, self.in_flight, self.healthy, max(versions, default=None), versions)

    @property
    def out(self) -> str:
        """Why it must not be asked, if so."""
        if self._posted and self.healthy and self.version is None:
            return "it restarted, and has not the weights yet that it had"
        return self._out

    def posted(self, versions: frozenset[int], out: str) -> None:
        """What the weights service says: what it can be asked for, and why it must not be."""
        if out != self._out:
            _log.info("replica is out of rotation" if out else "replica is in rotation", replica=self.url, reason=out)
        self._posted, self._out = versions, out

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
