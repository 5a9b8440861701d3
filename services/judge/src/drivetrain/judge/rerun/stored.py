"""The scores that a judge has stored: by turn, each revision's reward."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from drivetrain.common.bus.base import Bus
from drivetrain.common.events import TurnScored

Turn = tuple[str, str]
"""A session and a turn of it."""

CONFIG_HEADER = "Drivetrain-Judge-Config"
"""Names the configuration that a score of a rerun was made with."""


@dataclass
class Scores:
    """Rewards (None: unresolved) by turn and revision, in stream order; `configs` are the configurations that made
    them, "" those of a judge that ran live."""

    rewards: dict[Turn, dict[int, float | None]] = field(default_factory=dict)
    configs: set[str] = field(default_factory=set)

    def add(self, score: TurnScored, config: str) -> None:
        self.rewards.setdefault((score.session, score.turn), {})[score.n] = score.reward
        self.configs.add(config)

    def __contains__(self, revision: tuple[str, str, int]) -> bool:
        session, turn, n = revision
        return n in self.rewards.get((session, turn), ())

    def revisions(self, turn: Turn) -> Iterator[int]:
        """A turn's revisions, the last one stored first."""
        return reversed(self.rewards.get(turn, {}))


async def scores_of(bus: Bus, policy: str, judge: str) -> Scores:
    """All that a judge has stored of a policy.

    Raises:
        BusError: the bus went away.
    """
    found = Scores()
    async for stored in bus.replay("SCORES", f"turn.scored.*.{policy}.*.*.{judge}.*"):
        if isinstance(stored.event, TurnScored):
            found.add(stored.event, stored.headers.get(CONFIG_HEADER, ""))
    return found
