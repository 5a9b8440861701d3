"""The streams of the bus, as data: what each holds, and for how long.

All are file-backed with limits retention (replay needs it) and refuse new messages when full (the publisher's spool
holds them). One message per subject makes "one subject, one event" hold however late a copy comes.
"""

from dataclasses import dataclass

DAY_S = 86_400
GIB = 1 << 30
OBJECTS = "drivetrain-objects"
"""The object-store bucket for payloads above the message limit."""


@dataclass(frozen=True)
class StreamSpec:
    """One stream. `once` is false only where several messages share a subject by design; `last_only` keeps the last
    one of each subject."""

    name: str
    subjects: tuple[str, ...]
    max_age_s: float
    max_bytes: int
    once: bool = True
    last_only: bool = False


ROLLOUTS = tuple(f"rollout.{what}.>" for what in ("requested", "started", "moved", "cancel", "finished"))
STREAMS: tuple[StreamSpec, ...] = (
    StreamSpec("TURNS", ("turn.recorded.>", "turn.followed.>"), 30 * DAY_S, 4 * GIB),
    StreamSpec("SIGNALS", ("signal.>",), 30 * DAY_S, GIB // 2),
    StreamSpec("SCORES", ("turn.scored.>", "rollout.scored.>", "group.ranked.>"), 30 * DAY_S, GIB // 2),
    StreamSpec("ROLLOUTS", ROLLOUTS, 30 * DAY_S, GIB // 2),
    StreamSpec("WEIGHTS", ("weights.>",), 365 * DAY_S, GIB // 4),
    StreamSpec("REPLICAS", ("replica.>",), DAY_S, GIB // 16, once=False, last_only=True),
    StreamSpec("DEAD", ("dead.>",), 90 * DAY_S, GIB // 2, once=False),
)
