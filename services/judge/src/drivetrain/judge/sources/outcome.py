"""The verifier's outcome of a rollout, credited alike to each of its turns."""

from drivetrain.common.events import Vote
from drivetrain.judge.sources.base import Case, Opinion, quote


class Outcome:
    """Votes with the outcome in [-1, 1]; an outcome without a value (the machine failed) says nothing."""

    name = "outcome"
    costly = False

    async def judge(self, case: Case) -> Opinion:
        told = sorted((s for s in case.signals if s.kind == "outcome"), key=lambda signal: signal.at)
        return Opinion(
            tuple(
                Vote(source="outcome", value=s.value, evidence=quote(f"{s.reason or 'outcome'} {s.value:g} {s.text}"))
                for s in told
                if s.value is not None
            )
        )
