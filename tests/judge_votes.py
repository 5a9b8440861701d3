"""Votes, cases, and a judge model that says what a test wants."""

from drivetrain.common.events import Signal, Vote
from drivetrain.judge.sources.base import Case, NoScore, Opinion, Source
from drivetrain.judge.votes import majority


class Model(Source):
    """Says what it is told to, at a price."""

    name = "model"
    costly = True
    within = staticmethod(majority)

    def __init__(self, *values: float, fails: bool = False) -> None:
        self.values, self.fails, self.asked = values, fails, 0

    async def judge(self, case: Case) -> Opinion:
        self.asked += 1
        if self.fails:
            raise NoScore("down")
        return Opinion(tuple(vote("model", value) for value in self.values))


def vote(source: str, value: float, weight: float = 1.0) -> Vote:
    return Vote(source=source, value=value, weight=weight, evidence="seen")


def outcome(value: float | None) -> Signal:
    return Signal(kind="outcome", tenant="acme", policy="p", session="s", id="o", value=value, reason="success", at=9.0)


def case(*after: str, later: int = 0, value: float | None = None) -> Case:
    """A turn after which tools returned these texts; with the outcome of its rollout, if there is one."""
    results = tuple({"role": "tool", "tool_call_id": "c", "content": text} for text in after)
    return Case((), {"role": "assistant"}, results, signals=() if value is None else (outcome(value),), later=later)
