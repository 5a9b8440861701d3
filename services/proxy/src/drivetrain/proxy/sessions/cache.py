"""What one process remembers of conversations by itself: bounded, the least recently used forgotten first."""

from collections import OrderedDict

from drivetrain.proxy.sessions.kept import Kept

_SEEN = 50_000


class Cache:
    """The turns that this process saw lately, where their conversations stand, and the next states it has noted.

    `lines` names the turn in which a conversation's digest ends, `last` a session's last main turn.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._turns: OrderedDict[str, Kept] = OrderedDict()
        self._names: dict[str, tuple[str, str]] = {}
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        self.lines: dict[str, str] = {}
        self.last: dict[str, str] = {}

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

    def add_own(self, turn: str, kept: Kept, line: str, session: str, *, main: bool) -> None:
        """Remember a turn that ended here, and where its conversation stands."""
        self.lines[line], self._names[turn] = turn, (line, session)
        if main:
            self.last[session] = turn
        self.add(turn, kept)

    def own(self) -> list[str]:
        """The turns that ended here and are still remembered, oldest first."""
        return list(self._names)

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
        line, session = self._names.pop(turn, ("", ""))
        if self.lines.get(line) == turn:
            del self.lines[line]
        if self.last.get(session) == turn:
            del self.last[session]
