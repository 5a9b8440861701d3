"""The verifier's outcome of a rollout, credited to its turns."""

from drivetrain.common.events import Signal, Vote
from drivetrain.judge.sources.base import Case, Opinion, Source, quote


class Outcome(Source):
    """Votes with the outcome in [-1, 1]; an outcome without a value (the machine failed) says nothing.

    A turn is credited with `gamma` to the power of the number of main turns that came later (1: all turns alike), and
    with `coef` times the mean of its own votes on top.
    """

    name = "outcome"
    final = True

    def __init__(self, gamma: float = 1.0, coef: float = 0.0) -> None:
        self._gamma = gamma
        self.adds = coef

    def looks_back(self, case: Case) -> bool:
        return self._gamma < 1 and any(signal.kind == "outcome" for signal in case.signals)

    async def judge(self, case: Case) -> Opinion:
        weight = self._gamma**case.later
        told = sorted((s for s in case.signals if s.kind == "outcome"), key=lambda signal: signal.at)
        return Opinion(tuple(vote for signal in told if (vote := vote_of(signal, weight)) is not None))


def vote_of(signal: Signal, weight: float = 1.0) -> Vote | None:
    """An outcome as a vote, None where it has no value."""
    if signal.value is None:
        return None
    evidence = quote(f"{signal.reason or 'outcome'} {signal.value:g} {signal.text}")
    return Vote(source=Outcome.name, value=signal.value, weight=weight, evidence=evidence)
