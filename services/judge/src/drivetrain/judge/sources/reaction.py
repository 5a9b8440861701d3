"""The user's next message, read by rules alone: thanks or approval, objection, correction, the question once more."""

from drivetrain.common.events import Vote
from drivetrain.judge.hints import advice_of, directives_of
from drivetrain.judge.reading import prepare, read
from drivetrain.judge.sources.base import Case, Opinion, Source, quote
from drivetrain.judge.text import content_text


class Reaction(Source):
    """Votes +1, -1, or 0 for a message that says nothing of the reply. An objection's directives are hints."""

    name = "reaction"

    def __init__(self) -> None:
        prepare()

    async def judge(self, case: Case) -> Opinion:
        if not case.said:
            return Opinion()
        text = "\n".join(case.said)
        reading = read(text, case.asked, content_text(case.reply))
        vote = Vote(
            source=self.name,
            value=reading.verdict,
            confidence=reading.confidence,
            evidence=quote(reading.evidence or text),
        )
        return Opinion(
            (vote,), tuple(directives_of(text, reading) or advice_of(reading)) if reading.verdict < 0 else ()
        )
