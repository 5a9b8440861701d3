"""The judge's metrics."""

from collections.abc import Iterable

from drivetrain.common.events import Event, Signal, TurnFollowed
from drivetrain.common.telemetry.metrics import Metrics
from drivetrain.judge.chain import Judgement

_metrics = Metrics("judge")
VOTES = _metrics.counter("votes", "Votes by source and result", ["source", "result"])
SCORES = _metrics.counter("scores", "Scores stored, by the source that decided (none: only zeros)", ["decided_by"])
UNRESOLVED = _metrics.counter("unresolved", "Scores without a reward, by why", ["reason"])
HINTS = _metrics.counter("hints", "Hints accepted")
JUDGING = _metrics.histogram("judging_seconds", "From a delivery to its stored score", ["kind"])
DISAGREEMENTS = _metrics.counter("disagreements", "Judgements whose votes point in opposite directions", ["among"])
CALLS = _metrics.counter("model_calls", "Calls of the judge model by result", ["result"])
CALL_SECONDS = _metrics.histogram("model_call_seconds", "One call of the judge model")
CACHED = _metrics.counter("model_cached", "Turns whose votes were known from the same question")
UNPARSED = _metrics.counter("model_unparsed", "Answers of the judge model that are no vote")
RANKINGS = _metrics.counter("rankings", "Groups without a verifier, by whether they were ranked", ["result"])
TOKENS = _metrics.counter("model_tokens", "Tokens that the judge model used", ["kind"])
SPEND = _metrics.counter("model_spend", "What those tokens cost, by the prices of the settings")
DELAY = _metrics.histogram("delay_seconds", "From an event's own time to its stored score", ["kind"])


class Meters:
    """Counts what was judged."""

    def scored(self, judgement: Judgement) -> None:
        """Count a judgement's votes, hints and result."""
        for vote in judgement.votes:
            VOTES.labels(vote.source, _result(vote.value)).inc()
        HINTS.inc(len(judgement.hints))
        if _opposed(vote.value for vote in judgement.votes if vote.source == "model"):
            DISAGREEMENTS.labels("model votes").inc()
        if len({vote.source for vote in judgement.votes}) > 1 and _opposed(vote.value for vote in judgement.votes):
            DISAGREEMENTS.labels("votes").inc()
        if judgement.reward is None:
            UNRESOLVED.labels(f"{judgement.failed} failed" if judgement.failed else "no evidence").inc()
        else:
            SCORES.labels(judgement.decided_by or "none").inc()

    def judged(self, event: Event, seconds: float, now: float) -> None:
        """Time one delivery."""
        kind = event.kind if isinstance(event, TurnFollowed | Signal) else "other"
        JUDGING.labels(kind).observe(seconds)
        if isinstance(event, TurnFollowed | Signal):
            DELAY.labels(kind).observe(max(0.0, now - event.at))


def _opposed(values: Iterable[float]) -> bool:
    return len({_result(value) for value in values} - {"zero"}) == 2


def _result(value: float) -> str:
    return "positive" if value > 0 else "negative" if value < 0 else "zero"
