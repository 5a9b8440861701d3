"""Which replica a session's next request goes to: its own while that is sensible, else the least loaded. Pure."""

import hashlib
from collections.abc import Sequence

import msgspec


class Seen(msgspec.Struct, frozen=True):
    """A replica as the proxy sees it now. `version` is the newest that it can be asked for, None while the replica does
    not say which weights it serves; `versions` are all."""

    url: str
    in_flight: int = 0
    healthy: bool = True
    version: int | None = None
    versions: frozenset[int] = frozenset()


def ranked(
    session: str, replicas: Sequence[Seen], *, max_lead: int, max_lag: int, wanted: int | None = None
) -> list[Seen]:
    """The replicas in the order in which this session's request should try them; all of them, each once.

    Healthy ones come first, among them those that have the `wanted` version, among these those at most `max_lag`
    versions behind the newest. Of the best kind, the
    session's own replica (its prefix cache knows the conversation) leads, unless it has more than `max_lead` requests
    in flight than the least loaded. The others follow by load.
    """
    newest = max((seen.version for seen in replicas if seen.healthy and seen.version is not None), default=0)

    def kind(seen: Seen) -> tuple[bool, bool, bool]:
        behind = 0 if seen.version is None else newest - seen.version
        return (not seen.healthy, wanted is not None and wanted not in seen.versions, behind > max_lag)

    order = sorted(replicas, key=lambda seen: (kind(seen), seen.in_flight, weight(session, seen.url)))
    best = [seen for seen in order if kind(seen) == kind(order[0])]
    own = min(best, key=lambda seen: weight(session, seen.url), default=None)
    if own is not None and own.in_flight - order[0].in_flight <= max_lead:
        order.remove(own)
        order.insert(0, own)
    return order


def weight(session: str, url: str) -> bytes:
    """Rendezvous hashing: a session's own replica is the one of least weight, whichever others come and go."""
    return hashlib.blake2b(f"{session}\0{url}".encode(), digest_size=8).digest()
