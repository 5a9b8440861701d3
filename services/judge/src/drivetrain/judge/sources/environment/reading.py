"""What one tool result tells: that its call failed, how a run of tests ended, or nothing but information."""

import re
from typing import Literal, NamedTuple

from drivetrain.judge.sources.environment.actions import Call
from drivetrain.judge.sources.environment.families import ERRORS, SHELL, WEB, Kind, Rule
from drivetrain.judge.sources.environment.families.tests import tests_in
from drivetrain.judge.sources.environment.results import Result

SHORT = 4
"""Lines up to which the output of a command that only reads is taken for an error of the command itself."""
FIRST, LAST = 3, 6
"""Lines at the edges of an output in which programs complain."""

_LOGGED = re.compile(r"[\s\[(]*\d+[-/:.]")
"""How lines of logs, and those that grep numbers, begin."""
_COMPLAINS = re.compile(
    r"\s*(?:[\w.]*(?:error|exception)|curl|wget|fatal|failed|net::|http|[45]\d\d |<|错误|失败)", re.IGNORECASE
)
"""How a tool that reads from the network begins when it speaks of itself, not of what it read."""


class Finding(NamedTuple):
    """`state`: `failed`, tests `passed`, or `plain` information; the kind of the failure, the line that tells, and how
    sure a reader can be."""

    state: Literal["failed", "passed", "plain"]
    kind: Kind | None
    evidence: str
    confidence: float = 1.0


def find(result: Result, call: Call | None) -> Finding:
    """What a result tells of its call. What a file or a log contains is no error of reading it."""
    looks = call is not None and call.act == "look"
    tests = None if looks else tests_in(result.clipped)
    if tests is not None:
        verdict, line = tests
        return Finding("failed", "tests", line, 0.97) if verdict == "failed" else Finding("passed", None, line)
    if result.code:
        return _of_code(result, looks)
    if result.code == 0:
        return _in_spite_of_zero(result)
    if result.said is not None:
        complaint = _complaint(result, looks=False)
        kind = complaint[0].kind if complaint else result.said.kind
        return Finding("failed", kind, result.said.shown, 0.95)
    complaint = _complaint(result, looks)
    return Finding("failed", complaint[0].kind, complaint[1], 0.9) if complaint else _plain(result)


def _of_code(result: Result, looks: bool) -> Finding:
    """A code that is not 0; a search without a find and a comparison that differs end with one too."""
    complaint = _complaint(result, looks=False)
    if looks and complaint is None and (result.code or 0) in (1, 2):
        return Finding("plain", None, f"exit code {result.code}")
    told = f": {complaint[1]}" if complaint else f": {result.lines[-1].strip()}" if result.lines else ""
    kind: Kind = complaint[0].kind if complaint else "timeout" if result.code in (124, 137, -1) else "crash"
    return Finding("failed", kind, f"exit code {result.code}{told}", 0.97)


def _in_spite_of_zero(result: Result) -> Finding:
    """In a pipe the last command's code hides the others': nothing but complaints of the shell is a failure."""
    complaints = [(rule, line) for line in result.lines[:SHORT] for rule in SHELL[:1] if rule.pattern.match(line)]
    if complaints and len(complaints) == len(result.lines):
        return Finding("failed", complaints[0][0].kind, complaints[0][1].strip(), 0.9)
    return Finding("plain", None, "exit code 0")


def _complaint(result: Result, looks: bool) -> tuple[Rule, str] | None:
    """The first rule that tells of a failure, and its line."""
    lines = result.lines
    short = len(lines) <= (SHORT if looks else FIRST + LAST)
    edges = lines if short else [] if looks else [*lines[:FIRST], *lines[-LAST:]]
    if looks and edges:
        edges = [] if _LOGGED.match(edges[0]) else edges[:1]
    for rule in ERRORS:
        if looks and rule in WEB and not any(_COMPLAINS.match(line) for line in edges):
            continue
        for line in edges[:1] if rule.where == "first" and len(lines) > SHORT else edges:
            if rule.pattern.match(line):
                return rule, line.strip()
        if rule.where == "anywhere" and not looks and (match := rule.pattern.search(result.clipped)):
            return rule, match[0].strip()
    return None


def _plain(result: Result) -> Finding:
    return Finding("plain", None, result.lines[0].strip() if result.lines else "empty")
