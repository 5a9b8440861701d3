"""The judge's metrics."""

from drivetrain.common.events import Event, Signal, TurnFollowed
from drivetrain.common.telemetry.metrics import Metrics
from drivetrain.judge.chain import Judgement

_metrics = Metrics("judge")
VOTES = _metrics.counter("votes", "Votes by source and result", ["source", "result"])
SCORES = _metrics.counter("scores", "Scores stored, by the source that decided (none: only zeros)", ["decided_by"])
UNRESOLVED = _metrics.counter("unresolved", "Scores without a reward, by why", ["reason"])
HINTS = _metrics.counter("hints", "Hints accepted")
JUDGING = _metrics.histogram("judging_seconds", "From a delivery to its stored score", ["kind"])
DELAY = _metrics.histogram("delay_seconds", "From an event's own time to its stored score", ["kind"])


class Meters:
    """Counts what was judged."""

    def scored(self, judgement: Judgement) -> None:
        """Count a judgement's votes, hints and result."""
        for vote in judgement.votes:
            VOTES.labels(vote.source, _result(vote.value)).inc()
        HINTS.inc(len(judgement.hints))
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


def _result(value: float) -> str:
    return "positive" if value > 0 else "negative" if value < 0 else "zero"
