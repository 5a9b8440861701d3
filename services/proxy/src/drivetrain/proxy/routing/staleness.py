"""Back-pressure: rollouts wait while the replicas are too far behind the trainer, as their samples would be stale."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from drivetrain.common.bus import Bus
from drivetrain.common.bus.base import BusError
from drivetrain.common.events import InvalidEvent, NewerVersion
from drivetrain.common.telemetry.logs import get_logger

_log = get_logger("routing")


class Fates(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version that the bus knows to be announced, promoted and held; None where there is none."""

    candidate: int | None = None
    promoted: int | None = None
    held: int | None = None


def behind(fates: Fates, served: Sequence[int]) -> int:
    """How many versions the replicas are behind the newest one of the lineage.

    That is the newest candidate while it may yet be promoted. A version that was held is no reason to wait: nothing
    would ever end the wait. `served` are the versions that replicas report; without any, what is promoted counts.
    """
    candidate, held = fates.candidate or 0, fates.held or 0
    newest = candidate if candidate > held else fates.promoted or 0
    return max(0, newest - max(served, default=fates.promoted or 0))


class Staleness:
    """Watches one policy's versions on the bus. `served` gives the versions of the healthy replicas."""

    def __init__(self, bus: Bus, policy: str, served: Callable[[], Sequence[int]], max_staleness: int) -> None:
        self._bus, self._policy, self._served, self._max = bus, policy, served, max_staleness
        self._fates = Fates()

    def held(self) -> str:
        """Why rollouts must wait now; empty when they need not."""
        versions = behind(self._fates, self._served())
        if versions <= self._max:
            return ""
        return f"the replicas are {versions} versions behind the trainer (at most {self._max})"

    async def look(self) -> None:
        """Ask the bus once. While it is away, what was known stays."""
        kinds = ("candidate", "promoted", "held")
        try:
            found = [await self._newest(kind) for kind in kinds]
        except (BusError, InvalidEvent, NewerVersion) as error:
            _log.warning("the versions of the weights cannot be read", reason=str(error))
            return
        self._fates = Fates(**dict(zip(kinds, found, strict=True)))

    async def run(self, every_s: float, changed: Callable[[], None], stopping: Callable[[], bool]) -> None:
        """Look every so often until the service stops; `changed` is called after each look."""
        while not stopping():
            await self.look()
            changed()
            await asyncio.sleep(every_s)

    async def _newest(self, kind: str) -> int | None:
        stored = await self._bus.get("WEIGHTS", f"weights.{kind}.{self._policy}.*")
        return int(stored.subject.rpartition(".")[2]) if stored else None
