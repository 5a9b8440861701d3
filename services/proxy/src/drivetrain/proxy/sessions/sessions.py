"""Which turn is the last of which conversation: a local cache, an index that all replicas share, and the stream.

Each answers when the one before it does not know. When Redis does not answer, the local cache serves alone: replies
go out, and conversations that this replica does not know start anew. What could not be written is written later.
"""

import re
from collections.abc import Sequence

from drivetrain.common.events import TurnRecorded
from drivetrain.proxy.recording.capture import known_turn
from drivetrain.proxy.sessions.cache import Cache
from drivetrain.proxy.sessions.history import History
from drivetrain.proxy.sessions.index import Entry, Index
from drivetrain.proxy.sessions.kept import Address, Kept, chain, keep, past
from drivetrain.proxy.turns import KnownTurn, Past

_ID = re.compile("[0-9a-f]{32}")
_AT_ONCE = 8
_OWED = 10_000
_WRITES = 200


class Sessions:
    """The conversations of all policies of one proxy process. A main turn goes idle `idle_s` after it finished unless
    something follows it."""

    def __init__(self, index: Index, history: History, *, cache_bytes: int, idle_s: float) -> None:
        self._index, self._history, self._idle_s = index, history, idle_s
        self._cache = Cache(cache_bytes)
        self._followed: dict[Address, None] = {}
        self._owed: dict[str, None] = {}

    async def find(self, digests: Sequence[str]) -> Past | None:
        """The recorded turn of the first digest that is known, with its whole token sequence."""
        cached = next((i for i, digest in enumerate(digests) if digest in self._cache.lines), len(digests))
        # A longer conversation than the cached one may have been served by another replica of the proxy.
        start, step = 0, _AT_ONCE
        while start < cached:
            for place in await self._index.places(digests[start : min(start + step, cached)]):
                if place is not None and (found := await self._load(place)):
                    return past(found)
            start, step = start + step, step * 4
        for digest in digests[cached:]:
            own = self._cache.address(digest)
            if own is not None and (found := await self._load(own)):
                return past(found)
        return None

    async def remember(self, known: KnownTurn) -> None:
        """Add a finished turn: requests that continue its conversation find it, here and at every other replica."""
        kept = keep(known)
        self._cache.add_own(known, kept)
        followed, self._followed = self._followed, {}
        if not await self._index.write([self._entry(known, kept)], followed):
            self._owe([known.turn])
            self._followed = dict(list((followed | self._followed).items())[-_OWED:])

    def take_over(self, event: TurnRecorded) -> None:
        """Owe the index a turn that its process may not have lived to remember."""
        if event.place is not None:
            known = known_turn(event)
            self._cache.add_own(known, keep(known))
            self._owe([known.turn])

    def followed(self, known: KnownTurn, digest: str) -> bool:
        """Note that something follows a turn, which then never goes idle; whether it is new to this process."""
        self._followed[_place(known)] = None
        return self._cache.first_time(known.turn, digest)

    async def turn(self, turn: str) -> KnownTurn | None:
        """A known turn by its id. Whatever callers send may be asked for: what is no id is not known."""
        if not _ID.fullmatch(turn):
            return None
        if kept := self._cache.get(turn):
            return kept.known
        place = await self._index.place_of(turn) or await self._history.find(turn)
        return await self.at(place) if place else None

    async def past(self, known: KnownTurn) -> Past | None:
        """A known turn with the whole conversation that it ended."""
        found = await self._load(_place(known))
        return past(found) if found else None

    async def attempts(self, *requests: str) -> list[KnownTurn]:
        """The turns that answer one of the requests, as far as they are known, oldest first."""
        places = await self._index.attempts(requests)
        here = {turn: None for request in requests for turn in self._cache.attempts.get(request, ())}
        found = [kept.known for turn in here if (kept := self._cache.get(turn))]
        found += [known for place in places if place.turn not in here and (known := await self.at(place))]
        return sorted(found, key=lambda known: known.finished_at)

    async def first(self, session: str) -> KnownTurn | None:
        """The turn with which a session began."""
        if place := await self._index.first(session):
            return await self.at(place)
        turn = self._cache.first.get(session)
        return await self.turn(turn) if turn else None

    async def last(self, session: str) -> KnownTurn | None:
        """The awaited turn of a session that finished last."""
        if place := await self._index.last(session):
            return await self.at(place)
        if turn := self._cache.last.get(session):
            return await self.turn(turn)
        place = await self._history.last(session)
        return await self.at(place) if place else None

    async def at(self, place: Address) -> KnownTurn | None:
        """A known turn by its place, without its ancestors."""
        if kept := self._cache.get(place.turn) or await self._index.turn(place):
            return kept.known
        found = (await self._history.session(place.policy, place.session)).get(place.turn)
        return found.known if found else None

    async def settle(self) -> None:
        """Write what could not be written while Redis was away."""
        while self._owed:
            some = list(self._owed)[:_WRITES]
            entries = [self._entry(kept.known, kept) for turn in some if (kept := self._cache.get(turn))]
            if not await self._index.write(entries):
                return
            for turn in some:
                self._owed.pop(turn, None)

    def owe_all(self) -> None:
        """Redis lost what it had: all that ended here lately is to be written again."""
        self._owe(self._cache.own())

    def _owe(self, turns: list[str]) -> None:
        self._owed |= dict.fromkeys(turns)
        self._owed = dict.fromkeys(list(self._owed)[-_OWED:])

    async def _load(self, place: Address) -> list[Kept] | None:
        """A turn with all its ancestors: from the cache, the one turn that another replica added, the session in
        Redis, or the stream."""
        found: dict[str, Kept] = {}

        def get(turn: str) -> Kept | None:
            return found.get(turn) or self._cache.get(turn)

        whole, missing = chain(place.turn, get)
        if missing and (kept := await self._index.turn(Address(place.policy, place.session, missing))):
            found[missing] = kept
            whole, missing = chain(place.turn, get)
        if missing:
            found |= await self._index.session(place.session, lambda turn: get(turn) is not None)
            whole, missing = chain(place.turn, get)
        if missing:
            found |= await self._history.session(place.policy, place.session)
            whole, missing = chain(place.turn, get)
        for turn, kept in found.items():
            self._cache.add(turn, kept)
        return None if missing else whole

    def _entry(self, known: KnownTurn, kept: Kept) -> Entry:
        finished_at = known.finished_at if known.awaited else None
        deadline = None if finished_at is None else finished_at + self._idle_s
        return Entry(
            place=_place(known),
            lines=known.lines,
            requests=known.requests,
            kept=kept,
            finished_at=finished_at,
            deadline=deadline,
        )


def _place(known: KnownTurn) -> Address:
    return Address(known.policy, known.session, known.turn)
