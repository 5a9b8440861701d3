"""What a rerun came to, as figures and for people."""

from datetime import UTC, datetime

import msgspec

from drivetrain.judge.evaluation.table import aligned, shown
from drivetrain.judge.rerun.difference import Difference
from drivetrain.judge.rerun.run import Tally
from drivetrain.judge.rerun.window import Window


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """See `Tally` for the counts. `difference` is None where nothing was scored."""

    judge: str
    policy: str
    since: float
    until: float
    next_states: int
    signals: int
    stored: int
    known: int
    left_out: dict[str, int]
    difference: Difference | None


def report(judge: str, window: Window, tally: Tally, found: Difference | None) -> Report:
    """The report of a rerun."""
    return Report(
        judge=judge,
        policy=window.policy,
        since=window.since,
        until=window.until,
        next_states=tally.next_states,
        signals=tally.signals,
        stored=tally.stored,
        known=tally.known,
        left_out=dict(tally.left_out.most_common()),
        difference=found,
    )


def table(report: Report) -> str:
    """The report as text."""
    lines = [
        f"Policy {report.policy}, {_time(report.since)} to {_time(report.until)}: {report.next_states} next states and "
        f"{report.signals} signals.",
        f"Judge {report.judge}: {report.stored} scores stored, {report.known} were stored before.",
    ]
    lines += [f"Left out: {count} ({reason})" for reason, count in report.left_out.items()]
    if report.difference is None:
        return "\n".join([*lines, "Nothing was scored: this only counts."])
    return "\n".join([*lines, *_difference(report.judge, report.difference)])


def _difference(judge: str, found: Difference) -> list[str]:
    if not found.covered_old.value:
        return [f"\nThere is no score of {found.against} to compare with: --against names another judge."]
    names = list(found.confusion)
    rows = [(f"{found.against} {row}", *(str(columns[n]) for n in names)) for row, columns in found.confusion.items()]
    changes = [(c.session, c.turn, str(c.n), f"{c.old:+g}", f"{c.new:+g}") for c in found.changes]
    return [
        f"\nAgainst {found.against}, over {found.turns} turns. In brackets: 95% intervals.",
        f"Scored: {shown(found.covered_old)} by {found.against}, {shown(found.covered_new)} by {judge}.",
        f"Where both did: agreement {shown(found.agreement)}, kappa {shown(found.kappa)}.\n",
        aligned([("", *(f"{judge} {name}" for name in names)), *rows]),
        f"\nRewards that changed: {found.changed}" + ("; the largest:" if changes else "."),
        *([aligned([("session", "turn", "n", found.against, judge), *changes])] if changes else []),
    ]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
