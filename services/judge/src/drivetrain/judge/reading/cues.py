"""What a reading is made of."""

from dataclasses import dataclass
from typing import Literal

from drivetrain.judge.lexicon import Kind
from drivetrain.judge.text import Clause

DIRECTIVE: tuple[str, ...] = ("instruction", "preference", "form")


@dataclass(frozen=True)
class Cue:
    """One thing a clause says of the reply: its kind, +1, -1 or 0, and the clause as written. `amiss` is what it says
    was wrong, where that calls for advice: a `figure`, or something that `lacks`."""

    kind: Kind | Literal["restated", "form", "emoji"]
    value: int
    weak: bool
    clause: Clause
    amiss: Literal["", "figure", "lacks"] = ""


@dataclass(frozen=True)
class Reading:
    """A message read: its cues, its clauses, and the verdict they add up to (+1, -1 or 0)."""

    cues: tuple[Cue, ...]
    clauses: tuple[Clause, ...]
    verdict: int

    @property
    def evidence(self) -> str:
        """The clauses behind the verdict, as written."""
        spans = dict.fromkeys(cue.clause.raw for cue in self.cues if cue.value == self.verdict)
        return " … ".join(spans)[:400]

    @property
    def confidence(self) -> float:
        """How sure a reader can be of the verdict: less of one that rests on weak cues alone."""
        behind = [cue for cue in self.cues if cue.value == self.verdict]
        return 1.0 if not self.verdict else 0.7 if all(cue.weak for cue in behind) else 0.95
