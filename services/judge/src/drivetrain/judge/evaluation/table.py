"""A report for people: plain text, every figure with its 95% interval."""

from collections.abc import Sequence

from drivetrain.judge.evaluation.figures import Estimate
from drivetrain.judge.evaluation.report import NAMES, VERDICTS, Figures, Report

_HEAD = ("", "turns", "accuracy", "on clear signals", "silent without one", "right when it speaks", "scored", "kappa")


def table(report: Report) -> str:
    """The report as text."""
    groups = {"all": report.total, **report.domains, **report.languages}
    verdicts = [NAMES[verdict] for verdict in VERDICTS]
    matrix = [(f"label {label}", *(str(row[v]) for v in verdicts)) for label, row in report.confusion.items()]
    held = [
        (f"{b.low:.1f} to {b.high:.1f}", str(b.count), f"{b.confidence:.3f}", f"{b.right:.3f}")
        for b in report.calibration
    ]
    return "\n".join(
        [
            f"Judge {report.judge}: {report.total.turns} labelled turns. In brackets: 95% intervals.\n",
            aligned([_HEAD, *(_row(name, figures) for name, figures in groups.items())]),
            "\nConfusion (a row a label, a column a verdict)",
            aligned([("", *verdicts), *matrix]),
            f"\nCalibration: expected error {shown(report.calibration_error)}",
            aligned([("confidence", "verdicts", "mean", "right"), *held]),
            f"\nHints: given for {shown(report.hinted)} of the turns with a labelled one; "
            f"amiss {shown(report.hints_amiss)}",
            _cost(report),
        ]
    )


def _row(name: str, figures: Figures) -> tuple[str, ...]:
    columns = (figures.accuracy, figures.clear, figures.silent, figures.spoken, figures.coverage, figures.kappa)
    return (name, str(figures.turns), *map(shown, columns))


def shown(estimate: Estimate) -> str:
    """A figure with its interval."""
    if estimate.value is None:
        return "-"
    within = "" if estimate.low is None else f" [{estimate.low:.2f}, {estimate.high:.2f}]"
    return f"{estimate.value:.3f}{within}"


def _cost(report: Report) -> str:
    cost = report.cost
    asked = f"{cost.model_calls} calls of a model" if cost.model_calls else "no model asked"
    tokens = f", {cost.prompt_tokens} + {cost.completion_tokens} tokens, price {cost.spend:.4f}" * bool(
        cost.model_calls
    )
    return f"Cost: {cost.seconds_per_turn * 1000:.2f} ms a turn, {asked}{tokens}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
