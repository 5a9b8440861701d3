"""One vote per tool result, with the line or the exit code that it relied on.

-1: the call failed. +1: tests pass that failed before; or, for a part of the credit, another action works after one
that failed. 0: anything else, also a failure that was looked for: it is new information, not a complaint.
"""

from collections.abc import Sequence

from drivetrain.common.events import Vote
from drivetrain.judge.sources.base import Case, Opinion, Source, is_observation, quote
from drivetrain.judge.sources.environment.actions import calls_of
from drivetrain.judge.sources.environment.advice import advice
from drivetrain.judge.sources.environment.exchanges import Exchange, exchanges
from drivetrain.judge.sources.environment.reading import Finding, find
from drivetrain.judge.sources.environment.results import results_of
from drivetrain.judge.sources.environment.sought import sought
from drivetrain.judge.text import content_text
from drivetrain.judge.votes import worst


class Environment(Source):
    """See the module. `recovery` is the credit for another action that works after one that failed, in [0, 1]."""

    name = "environment"
    within = staticmethod(worst)

    def __init__(self, recovery: float = 0.5) -> None:
        self._recovery = recovery

    def looks_back(self, case: Case) -> bool:
        """What was asked and what failed before matter to every result but a plain one of a mere look."""
        if not any(is_observation(message) for message in case.after):
            return False
        if any(call.act != "look" for call in calls_of(case.reply)):
            return True
        now = _exchange(case)
        before = (finding for exchange in exchanges(case.before) for finding in _findings(exchange))
        return (
            not now.calls
            or any(finding.state != "plain" for finding in _findings(now))
            or any(finding.state == "failed" for finding in before)
        )

    async def judge(self, case: Case) -> Opinion:
        now = _exchange(case)
        earlier = exchanges((*case.history, *case.before)) if now.results else []
        findings = _findings(now)
        # What a person says of it outweighs that it works.
        works = not case.said and all(finding.state != "failed" for finding in findings)
        recovered = _failure_before(now, earlier) if works and self._recovery else None
        votes = tuple(self._vote(finding, case, now, earlier, recovered) for finding in findings)
        told = zip(votes, findings, now.results, strict=True)
        advised = (advice(finding, result, case.asked) for vote, finding, result in told if vote.value < 0)
        return Opinion(votes, tuple(hint for hint in advised if hint is not None))

    def _vote(
        self, finding: Finding, case: Case, now: Exchange, earlier: Sequence[Exchange], recovered: Finding | None
    ) -> Vote:
        if finding.kind is not None:
            standing = finding.kind == "tests" and _only_checked(now, earlier)
            wanted = standing or sought(finding.kind, case.asked, content_text(case.reply))
            return self._says(0.0 if wanted else -1.0, finding.evidence, finding.confidence)
        before = _last_run(earlier) if finding.state == "passed" else None
        if before is not None and before.state == "failed":
            return self._says(1.0, f"{finding.evidence} (after: {before.evidence})", 0.97)
        if recovered is not None:
            return self._says(1.0, f"{finding.evidence} (after: {recovered.evidence})", 0.85, self._recovery)
        return self._says(0.0, finding.evidence, 1.0)

    def _says(self, value: float, evidence: str, confidence: float, weight: float = 1.0) -> Vote:
        return Vote(source=self.name, value=value, weight=weight, confidence=confidence, evidence=quote(evidence))


def _exchange(case: Case) -> Exchange:
    return Exchange(calls_of(case.reply), tuple(results_of(case.after)))


def _findings(exchange: Exchange) -> list[Finding]:
    return [find(result, exchange.call_of(result)) for result in exchange.results]


def _last_run(earlier: Sequence[Exchange]) -> Finding | None:
    """How the last run of tests before ended."""
    runs = [f for exchange in earlier for f in _findings(exchange) if f.state == "passed" or f.kind == "tests"]
    return runs[-1] if runs else None


def _only_checked(now: Exchange, earlier: Sequence[Exchange]) -> bool:
    """Whether tests were run before anything was changed: what they show is how things stood."""
    acts = {call.act for call in now.calls}
    return bool(acts) and "act" not in acts and not any(exchange.changes() for exchange in earlier)


def _failure_before(now: Exchange, earlier: Sequence[Exchange]) -> Finding | None:
    """The failure that this action puts right: the last one, with nothing but looks since, and another action. To look
    is no recovery, unless a look failed."""
    for exchange in reversed(earlier):
        failures = [finding for finding in _findings(exchange) if finding.state == "failed"]
        if failures:
            other = {(c.tool, c.given) for c in now.calls} != {(c.tool, c.given) for c in exchange.calls}
            same_kind = not now.looks() or (exchange.looks() and now.calls[0].tool == exchange.calls[0].tool)
            return failures[0] if now.calls and other and same_kind and failures[0].kind != "tests" else None
        if not exchange.looks():
            return None
    return None
