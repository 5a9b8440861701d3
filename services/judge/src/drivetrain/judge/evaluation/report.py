"""What a run over a labelled set says of the judge, as figures and as a table. Pure."""

import random
from collections.abc import Sequence

import msgspec

from drivetrain.judge.evaluation.figures import Bin, Estimate, bins, calibration_error, kappa, resampled, share
from drivetrain.judge.evaluation.measure import Judged

VERDICTS: tuple[int | None, ...] = (-1, 0, 1, None)
NAMES = {-1: "-1", 0: "0", 1: "+1", None: "no score"}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of some turns. A turn without a score counts as wrong, and as silent.

    accuracy: verdict equal to label. clear: the same over turns with a plain 1 or -1. silent: no 1 or -1 where the
    label is 0. spoken: right where the judge said 1 or -1, which is what trains. coverage: turns with a score.
    """

    turns: int
    accuracy: Estimate
    clear: Estimate
    silent: Estimate
    spoken: Estimate
    coverage: Estimate
    kappa: Estimate


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What the run took: seconds of judging one turn, and what a judge model was asked, answered and costs in all."""

    seconds_per_turn: float
    model_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    spend: float = 0.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """See the module. `confusion` is by label, then by verdict. `hinted`: turns with a labelled hint that were given
    one; `hints_amiss`: turns given a hint, whose label is not -1."""

    judge: str
    total: Figures
    domains: dict[str, Figures]
    languages: dict[str, Figures]
    confusion: dict[str, dict[str, int]]
    calibration_error: Estimate
    calibration: list[Bin]
    hinted: Estimate
    hints_amiss: Estimate
    cost: Cost


def report(judge: str, results: Sequence[Judged], cost: Cost, seed: int) -> Report:
    """The report of a run; `seed` draws the samples of the bootstrap intervals."""
    confidences = [(r.confidence, r.verdict == r.turn.label) for r in results if r.confidence is not None]
    return Report(
        judge=judge,
        total=figures(results, seed),
        domains=_by("domain", results, seed),
        languages=_by("language", results, seed),
        confusion=confusion(results),
        calibration_error=resampled(confidences, calibration_error, random.Random(seed)),
        calibration=bins(confidences),
        hinted=share([bool(r.hints) for r in results if r.turn.hint]),
        hints_amiss=share([r.turn.label != -1 for r in results if r.hints]),
        cost=cost,
    )


def figures(results: Sequence[Judged], seed: int) -> Figures:
    """The figures of some turns."""
    pairs = [(r.turn.label, r.verdict) for r in results]
    return Figures(
        turns=len(pairs),
        accuracy=share([label == verdict for label, verdict in pairs]),
        clear=share([r.verdict == r.turn.label for r in results if r.turn.label and r.turn.clear]),
        silent=share([not verdict for label, verdict in pairs if label == 0]),
        spoken=share([label == verdict for label, verdict in pairs if verdict]),
        coverage=share([verdict is not None for _, verdict in pairs]),
        kappa=resampled(pairs, kappa, random.Random(seed)),
    )


def confusion(results: Sequence[Judged]) -> dict[str, dict[str, int]]:
    """How many turns of each label were given each verdict."""
    rows: dict[str, dict[str, int]] = {NAMES[label]: {NAMES[v]: 0 for v in VERDICTS} for label in (-1, 0, 1)}
    for result in results:
        rows[NAMES[result.turn.label]][NAMES[result.verdict]] += 1
    return rows


def _by(field: str, results: Sequence[Judged], seed: int) -> dict[str, Figures]:
    names = sorted({getattr(result.turn, field) for result in results})
    return {name: figures([r for r in results if getattr(r.turn, field) == name], seed) for name in names}
