"""Phrases read first, in order: what one matches is taken out of the clause, so "no complaints" is never "no"."""

from drivetrain.judge.lexicon.idioms.asides import ASIDES
from drivetrain.judge.lexicon.idioms.blame import BLAME_IDIOMS
from drivetrain.judge.lexicon.idioms.failures import FAILURES
from drivetrain.judge.lexicon.idioms.praise import PRAISE_IDIOMS
from drivetrain.judge.lexicon.idioms.results import RESULTS
from drivetrain.judge.lexicon.phrase import Phrase

IDIOMS: tuple[Phrase, ...] = (*ASIDES, *RESULTS, *FAILURES, *PRAISE_IDIOMS, *BLAME_IDIOMS)
