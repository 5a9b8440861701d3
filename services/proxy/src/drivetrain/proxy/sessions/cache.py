"""What one process remembers of conversations by itself: bounded, the least recently used forgotten first."""

from collections import OrderedDict

import msgspec

from drivetrain.proxy.sessions.kept import Address, Kept
from drivetrain.proxy.turns import KnownTurn

_SEEN = 10_000


class Cache:
    """The turns that this process saw lately, where their conversations stand, and the next states it has noted.

    `lines` names the turn in which a conversation's digest ends, `first` and `last` a session's turns of that rank, and
    `attempts` those that answer one request.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._turns: OrderedDict[str, Kept] = OrderedDict()
        self._own: dict[str, KnownTurn] = {}
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        self.lines: dict[str, str] = {}
        self.first: dict[str, str] = {}
        self.last: dict[str, str] = {}
        self.attempts: dict[str, list[str]] = {}

    def get(self, turn: str) -> Kept | None:
        """A turn, if it is remembered."""
        kept = self._turns.get(turn)
        if kept is not None:
            self._turns.move_to_end(turn)
        return kept

    def add(self, turn: str, kept: Kept) -> None:
        """Remember a turn."""
        if turn in self._turns:
            return
        self._turns[turn] = kept
        self._bytes += kept.size
        while self._bytes > self._max_bytes and len(self._turns) > 1:
            self._forget(*self._turns.popitem(last=False))

    def add_own(self, known: KnownTurn, kept: Kept) -> None:
        """Remember a turn that ended here, and where its conversation stands."""
        for line in known.lines:
            self.lines[line] = known.turn
        self.first.setdefault(known.session, known.turn)
        for request in known.requests:
            self.attempts.setdefault(request, []).append(known.turn)
        if known.awaited:
            self.last[known.session] = known.turn
        self._own[known.turn] = msgspec.structs.replace(known, prompt_ids=b"", response_ids=b"", messages=[], reply={})
        self.add(known.turn, kept)

    def address(self, line: str) -> Address | None:
        """Where the conversation with this digest stands, if it ended here."""
        known = self._own.get(self.lines.get(line, ""))
        return Address(known.policy, known.session, known.turn) if known else None

    def own(self) -> list[str]:
        """The turns that ended here and are still remembered, oldest first."""
        return list(self._own)

    def first_time(self, turn: str, digest: str) -> bool:
        """Whether this next state of the turn is new here, among the many that were noted lately."""
        key = (turn, digest)
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > _SEEN:
            self._seen.popitem(last=False)
        return True

    def _forget(self, turn: str, kept: Kept) -> None:
        self._bytes -= kept.size
        known = self._own.pop(turn, None)
        if known is None:
            return
        for names, key in (
            (self.first, known.session),
            (self.last, known.session),
            *((self.lines, line) for line in known.lines),
        ):
            if names.get(key) == turn:
                del names[key]
        for request in known.requests:
            attempts = self.attempts.get(request, [])
            if turn in attempts:
                attempts.remove(turn)
            if not attempts:
                self.attempts.pop(request, None)
