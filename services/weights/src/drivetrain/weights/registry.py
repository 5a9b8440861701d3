"""The life of a version: candidate -> loading -> promoted or held. Pure: every transition returns a new registry.

One version is loaded at a time, in the order of the announcements. A newer candidate never replaces an older one: each
gets its own decision, and one that no longer extends what is served is held with that reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """Where a version is in its life; `PROMOTED` and `HELD` are final."""

    CANDIDATE = "candidate"
    LOADING = "loading"
    PROMOTED = "promoted"
    HELD = "held"


class IllegalTransition(ValueError):
    """A step that the state machine does not have; the message names the version and its state."""


@dataclass(frozen=True)
class Version:
    """One version of the policy. `parent` is the version it was trained from."""

    number: int
    parent: int
    state: State
    reason: str = ""


@dataclass(frozen=True)
class Registry:
    """What is known of a policy's versions. `promoted` is the one to serve; 0 is the base model."""

    promoted: int = 0
    versions: Mapping[int, Version] = field(default_factory=lambda: MappingProxyType({}))

    def announce(self, number: int, parent: int) -> "Registry":
        """A candidate is there. Announcing a version again changes nothing."""
        if number in self.versions:
            return self
        return self._with(Version(number, parent, State.CANDIDATE))

    def objection(self, number: int) -> str | None:
        """Why a candidate must not be loaded, or None."""
        version = self._in(number, State.CANDIDATE)
        if number <= self.promoted:
            return f"version {number} is not newer than version {self.promoted}, which is promoted"
        if version.parent != self.promoted:
            parent = self.versions.get(version.parent)
            why = f" (it was held: {parent.reason})" if parent and parent.state is State.HELD else ""
            return f"version {number} was trained from {version.parent}{why}, but {self.promoted} is promoted"
        return None

    def begin(self, number: int) -> "Registry":
        """The candidate goes to the replicas.

        Raises:
            IllegalTransition: it is no candidate, or another version is loading.
        """
        if busy := self.loading():
            raise IllegalTransition(f"version {number} cannot load while version {busy.number} does")
        return self._with(replace(self._in(number, State.CANDIDATE), state=State.LOADING))

    def promote(self, number: int) -> "Registry":
        """Every replica in rotation proved that it serves this version."""
        promoted = replace(self._in(number, State.LOADING), state=State.PROMOTED)
        return replace(self._with(promoted), promoted=number)

    def hold(self, number: int, reason: str) -> "Registry":
        """The version is refused; the promoted one stays."""
        version = self._in(number, State.CANDIDATE, State.LOADING)
        return self._with(replace(version, state=State.HELD, reason=reason))

    def loading(self) -> Version | None:
        """The version that is being rolled out now."""
        return next((v for v in self.versions.values() if v.state is State.LOADING), None)

    def _in(self, number: int, *states: State) -> Version:
        version = self.versions.get(number)
        if version is None:
            raise IllegalTransition(f"version {number} was never announced")
        if version.state not in states:
            raise IllegalTransition(f"version {number} is {version.state}, not {' or '.join(states)}")
        return version

    def _with(self, version: Version) -> "Registry":
        return replace(self, versions=MappingProxyType({**self.versions, version.number: version}))
