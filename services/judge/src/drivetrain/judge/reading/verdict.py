"""From cues to a verdict."""

from collections.abc import Sequence

from drivetrain.judge import lexicon
from drivetrain.judge.reading.cues import Cue
from drivetrain.judge.text import Clause, bounded


def verdict(cues: Sequence[Cue], moves_on: bool) -> int:
    """What cues add up to. `moves_on`: the message asks something new, so that mere remarks object to nothing."""
    if any(cue.kind == "retraction" for cue in cues):
        return 0
    cues = _settle_no(cues)
    if any(cue.value < 0 and not cue.weak for cue in cues):
        return -1
    approved = [cue for cue in cues if cue.value > 0]
    wishes = [cue for cue in cues if cue.value < 0 and not (moves_on and cue.kind in ("remark", "mismatch"))]
    if approved and any(cue.clause.words[:1] and cue.clause.words[0] in lexicon.CONTRASTS for cue in wishes):
        return -1
    if approved:
        return 1
    return -1 if wishes else 0


def emoji(text: str) -> list[Cue]:
    """The cues of the emoji in a text."""
    shown = bounded(text).lower()
    return [
        Cue("emoji", value, value > 0, Clause(mark, 0, 0, (), False, 0))
        for mark, value in lexicon.EMOJI.items()
        if mark in shown
    ]


def _settle_no(cues: Sequence[Cue]) -> Sequence[Cue]:
    """A bare "no" before praise answers something else ("no, that's perfect"): it objects to nothing."""
    rest = [cue for cue in cues if cue.clause.text not in {"no", "nope", "nah", "不", "不是"}]
    return rest if rest and all(cue.value > 0 for cue in rest) else cues
