"""What has become of a policy's versions, read from the events of its weights. Pure but for `read_lives`.

```
 candidate ──▶ promoted ──▶ rolledback
     └───────▶ held
```
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from drivetrain.common.bus.base import Bus
from drivetrain.common.events import (
    Event,
    WeightsCandidate,
    WeightsHeld,
    WeightsLoaded,
    WeightsPromoted,
    WeightsRolledback,
)

SERVED_S = 7 * 86_400.0
"""A replica that loaded a version longer ago, and not the promoted one since, is taken for gone."""


class State(StrEnum):
    """Where a version is in its life. `LOADING` is known to the weights service alone."""

    CANDIDATE = "candidate"
    LOADING = "loading"
    PROMOTED = "promoted"
    HELD = "held"
    ROLLEDBACK = "rolledback"


@dataclass(frozen=True)
class Version:
    """One version of the policy. `parent` is the version it was trained from, None where that is not known."""

    number: int
    parent: int | None
    state: State
    reason: str = ""


@dataclass(frozen=True)
class Lives:
    """`promoted` is the version that serves (0: the base model); `loaded` has, by replica, the version that it loaded
    last and when (unix seconds)."""

    promoted: int = 0
    versions: Mapping[int, Version] = field(default_factory=lambda: MappingProxyType({}))
    loaded: Mapping[str, tuple[int, float]] = field(default_factory=lambda: MappingProxyType({}))

    def follow(self, event: Event) -> "Lives":
        """After an event, in the order of the stream; what is no event of a version's life changes nothing."""
        match event:
            case WeightsCandidate():
                if event.version in self.versions:
                    return self
                return self._with(Version(event.version, event.parent, State.CANDIDATE))
            case WeightsHeld():
                return self._become(event.version, State.HELD, event.reason)
            case WeightsPromoted():
                return replace(self._become(event.version, State.PROMOTED), promoted=event.version)
            case WeightsRolledback():
                return replace(self._become(event.version, State.ROLLEDBACK, event.reason), promoted=event.to)
            case WeightsLoaded():
                loaded = {**self.loaded, event.replica: (event.version, event.at)}
                return replace(self, loaded=MappingProxyType(loaded))
        return self

    def used(self, now: float) -> set[int]:
        """Versions that must not be removed: the promoted one, those that await a decision, those that replicas
        serve."""
        undecided = {number for number, version in self.versions.items() if version.state is State.CANDIDATE}
        served = {version for version, at in self.loaded.values() if now - at < SERVED_S}
        return {self.promoted, *undecided, *served}

    def _become(self, number: int, state: State, reason: str = "") -> "Lives":
        before = self.versions.get(number)
        return self._with(Version(number, before.parent if before else None, state, reason))

    def _with(self, version: Version) -> "Lives":
        return replace(self, versions=MappingProxyType({**self.versions, version.number: version}))


async def read_lives(bus: Bus, policy: str) -> Lives:
    """The lives of a policy's versions, as the bus knows them now.

    Raises:
        BusError: it could not be read.
    """
    lives = Lives()
    async for stored in bus.replay("WEIGHTS", f"weights.*.{policy}.>"):
        lives = lives.follow(stored.event)
    return lives
