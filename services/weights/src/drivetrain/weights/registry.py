"""The life of a version: candidate -> loading -> promoted or held, and promoted -> rolledback when a rollback withdraws
it. Pure: every transition returns a new registry.

One version is loaded at a time, in the order of the announcements. A newer candidate never replaces an older one: each
gets its own decision, and one that no longer extends what is served is held with that reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from drivetrain.common.store.lives import State, Version


class IllegalTransition(ValueError):
    """A step that the state machine does not have; the message names the version and its state."""


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
        version = self._in(number, State.CANDIDATE, State.LOADING)
        if number <= self.promoted:
            return f"version {number} is not newer than version {self.promoted}, which is promoted"
        if version.parent != self.promoted:
            parent = self.versions.get(version.parent) if version.parent is not None else None
            refused = parent and parent.state in (State.HELD, State.ROLLEDBACK)
            why = f" (it was {parent.state}: {parent.reason})" if parent and refused else ""
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

    def withdrawn_by(self, to: int) -> list[int]:
        """What a rollback to `to` withdraws, newest first: the promoted versions that descend from it.

        Raises:
            IllegalTransition: the promoted version does not descend from it.
        """
        line = [self.promoted]
        while (version := self.versions.get(line[-1])) and version.parent is not None:
            line.append(version.parent)
        if to not in line:
            before = ", ".join(map(str, line[1:11])) or "not known"
            raise IllegalTransition(
                f"version {to} is no ancestor of version {self.promoted}, which is promoted; its ancestors are {before}"
            )
        return line[: line.index(to)]

    def roll_back(self, to: int, reason: str) -> "Registry":
        """Withdraw what was promoted after `to`, which serves again.

        Raises:
            IllegalTransition: the promoted version does not descend from it.
        """
        changed = dict(self.versions)
        for number in self.withdrawn_by(to):
            changed[number] = replace(changed[number], state=State.ROLLEDBACK, reason=reason)
        return replace(self, versions=MappingProxyType(changed), promoted=to)

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
