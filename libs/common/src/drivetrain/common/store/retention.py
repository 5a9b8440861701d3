"""Which versions may go. Pure: time and what is in use are arguments."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Retention:
    """Versions beyond the newest `keep`, and those older than `max_age_s`, may go; None sets no limit."""

    keep: int | None = None
    max_age_s: float | None = None


@dataclass(frozen=True)
class Kept:
    """A stored version: when it was stored (unix seconds), and the version that it is a delta of."""

    stored_at: float
    needs: int | None


def collectable(versions: Mapping[int, Kept], rule: Retention, used: Collection[int], now: float) -> list[int]:
    """The versions to remove, newest first, so that a removal cut off halfway leaves no delta without its parent.

    `used` are those that must stay whatever the rule says: pinned, promoted, served, or awaiting a decision. What a
    kept version needs stays as well.
    """
    newest = sorted(versions, reverse=True)
    wanted = set(newest if rule.keep is None else newest[: rule.keep])
    if rule.max_age_s is not None:
        wanted = {version for version in wanted if now - versions[version].stored_at <= rule.max_age_s}
    kept = {version for root in wanted | set(used) for version in chain(versions, root)}
    return [version for version in newest if version not in kept]


def chain(versions: Mapping[int, Kept], version: int) -> Iterator[int]:
    """A version and all that it needs, nearest first; ends where something is not stored."""
    at: int | None = version
    while at is not None and at in versions:
        yield at
        at = versions[at].needs
