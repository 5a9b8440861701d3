"""Which recorded events are scored again: those of one policy, between two times of their own."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from drivetrain.common.bus.base import Bus
from drivetrain.common.events import Signal, TurnFollowed

_AGO = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

Cause = TurnFollowed | Signal
"""What makes a judge score a turn."""


@dataclass(frozen=True)
class Window:
    """The events of `policy` that happened in [since, until), in seconds since the epoch."""

    policy: str
    since: float
    until: float

    def holds(self, event: object) -> bool:
        """Whether an event is a cause for a score in this window; attempts that came to nothing are none."""
        if isinstance(event, TurnFollowed) and event.kind == "superseded":
            return False
        return isinstance(event, TurnFollowed | Signal) and self.since <= event.at < self.until

    async def causes(self, bus: Bus) -> AsyncIterator[Cause]:
        """Its next states, then its signals, each in stream order. An event is stored after it happened.

        Raises:
            BusError: the bus went away.
        """
        for stream, kind in (("TURNS", "turn.followed.*"), ("SIGNALS", "signal.*.*")):
            async for stored in bus.replay(stream, f"{kind}.{self.policy}.>", self.since):
                if self.holds(stored.event):
                    yield stored.event  # type: ignore[misc]  # `holds` has looked at its type


def moment(text: str, now: float) -> float:
    """A time in words as seconds since the epoch: `90m`, `12h` or `7d` ago, or a date with or without a time, in UTC
    unless it names a zone.

    Raises:
        ValueError: it is neither; the message shows both forms.
    """
    if ago := _AGO.fullmatch(text):
        return now - float(ago[1]) * _SECONDS[ago[2]]
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: write 7d, 12h, 90m, or 2026-11-30T18:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
