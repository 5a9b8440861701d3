"""Does the trainer want more? Rollouts wait while their samples would be stale, or while enough are on their way."""

from dataclasses import dataclass

from drivetrain.common.bus.base import Bus, BusError
from drivetrain.common.events import InvalidEvent, NewerVersion
from drivetrain.common.telemetry.logs import get_logger

log = get_logger("demand")


@dataclass(frozen=True)
class Versions:
    """The newest version of a policy that was announced, promoted, held; 0 where there is none."""

    candidate: int = 0
    promoted: int = 0
    held: int = 0

    @property
    def behind(self) -> int:
        """How many versions what is served is behind what may yet be served: a version that was held never will."""
        return max(0, self.candidate - self.promoted) if self.candidate > self.held else 0


class Demand:
    """What each policy's trainer can take. `ahead` is how many rollouts may have begun since its newest version, None:
    any number. While the bus does not say, what was known stays."""

    def __init__(self, bus: Bus, max_staleness: int, ahead: int | None) -> None:
        self._bus, self._max, self._ahead = bus, max_staleness, ahead
        self._versions: dict[str, Versions] = {}
        self._begun: dict[str, int] = {}

    def held(self, policy: str) -> str:
        """Why rollouts of a policy must wait now; empty if they need not."""
        versions = self._versions.setdefault(policy, Versions())
        if versions.behind > self._max:
            return f"what is served is {versions.behind} versions behind the trainer (at most {self._max})"
        if self._ahead is not None and self._begun.get(policy, 0) >= self._ahead:
            return f"{self._ahead} rollouts began since version {versions.candidate}, and the trainer has no newer one"
        return ""

    def begun(self, policy: str) -> None:
        """Another rollout of a policy began."""
        self._begun[policy] = self._begun.get(policy, 0) + 1

    async def look(self) -> None:
        """Ask the bus for the versions of every policy that was asked about."""
        for policy, known in list(self._versions.items()):
            try:
                kinds = ("candidate", "promoted", "held")
                found = Versions(*[await self._newest(policy, kind) for kind in kinds])
            except (BusError, InvalidEvent, NewerVersion) as error:
                log.warning("the versions of the weights cannot be read", reason=str(error))
                continue
            if found.candidate != known.candidate:
                self._begun[policy] = 0
            self._versions[policy] = found

    async def _newest(self, policy: str, kind: str) -> int:
        stored = await self._bus.get("WEIGHTS", f"weights.{kind}.{policy}.*")
        return int(stored.subject.rpartition(".")[2]) if stored else 0
