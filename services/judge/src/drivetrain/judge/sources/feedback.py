"""Explicit feedback: a thumb, a number or a text that a person sent about a reply. It overrides every inference."""

from drivetrain.common.events import Signal, Vote
from drivetrain.judge.hints import directives
from drivetrain.judge.reading import read
from drivetrain.judge.sources.base import Case, Opinion, Source, quote


class Feedback(Source):
    """Votes with the value given, or with what the text says; the text's directives are hints."""

    name = "feedback"
    final = True

    async def judge(self, case: Case) -> Opinion:
        given = sorted((s for s in case.signals if s.kind == "feedback"), key=lambda signal: signal.at)
        votes = [vote for signal in given if (vote := _vote(signal, case)) is not None]
        return Opinion(tuple(votes), tuple(hint for signal in given for hint in directives(signal.text, case.asked)))


def _vote(signal: Signal, case: Case) -> Vote | None:
    if signal.value is not None:
        evidence = f"value {signal.value:g}" + (f": {signal.text}" if signal.text else "")
        return Vote(source=Feedback.name, value=signal.value, evidence=quote(evidence))
    verdict = read(signal.text, case.asked).verdict
    return Vote(source=Feedback.name, value=verdict, evidence=quote(signal.text)) if verdict else None
