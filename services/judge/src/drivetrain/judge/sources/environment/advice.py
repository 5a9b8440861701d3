"""Hindsight on a failure without any model: what would have spared it.

Advice says what to do and holds nothing of what a tool printed. A failure that no line here knows gets none.
"""

import re

from drivetrain.judge.sources.environment.reading import Finding
from drivetrain.judge.sources.environment.remedies import ADVICE, TESTS, Advice
from drivetrain.judge.sources.environment.results import Result

HEAD, TAIL = 3, 8
"""Lines of a result that are looked at: programs say what is wrong at the edges."""

_HAN = re.compile(r"[\u3400-\u9fff]")


def advice(finding: Finding, result: Result, asked: list[str]) -> str | None:
    """What would have spared a failure, in the language of who asked; None where nothing here knows it."""
    if finding.kind == "tests" and not _compiles_not(result):
        known: Advice | None = TESTS
    else:
        told = "\n".join(dict.fromkeys([finding.evidence, *result.lines[:HEAD], *result.lines[-TAIL:]])).lower()
        known = next((each for each in ADVICE if each.reads.search(told)), None)
    if known is None:
        return None
    return known.chinese if any(_HAN.search(text) for text in asked) else known.english


def _compiles_not(result: Result) -> bool:
    """Whether tests could not even begin: the code was not read."""
    return any("Error" in line and "assert" not in line.lower() for line in result.lines[-TAIL:])
