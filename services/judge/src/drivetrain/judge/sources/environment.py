"""What tools returned: exit codes, tracebacks, error markers and test summaries, read by typed rules.

A result that shows a failure votes -1, tests that pass after they failed vote +1, any other result votes 0: it is new
information, not a complaint.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from drivetrain.common.events import Vote
from drivetrain.judge.sources.base import Case, Opinion, Source, observations, quote
from drivetrain.judge.text import bounded
from drivetrain.judge.votes import worst


class Rule(NamedTuple):
    """A pattern in a tool's output and what it means."""

    name: str
    pattern: re.Pattern[str]


def _rule(name: str, pattern: str, flags: int = re.MULTILINE) -> Rule:
    return Rule(name, re.compile(pattern, flags))


ANY_CASE = re.MULTILINE | re.IGNORECASE

TESTS_FAILED: tuple[Rule, ...] = (
    _rule("pytest", r"^.*\b[1-9]\d* (?:failed|errors?)\b.* in [\d.]+\s?m?s.*$"),
    _rule("unittest", r"^FAILED \((?:failures|errors)=.*$"),
    _rule("jest", r"^\s*Tests:\s+.*\b[1-9]\d* failed.*$"),
    _rule("go test", r"^(?:--- FAIL:.*|FAIL\s+\S+.*|FAIL)$"),
    _rule("cargo test", r"^test result: FAILED.*$"),
)
TESTS_PASSED: tuple[Rule, ...] = (
    _rule("pytest", r"^.*\b[1-9]\d* passed\b.* in [\d.]+\s?m?s.*$"),
    _rule("unittest", r"^Ran [1-9]\d* tests? in [\d.]+s\s+OK\b.*$"),
    _rule("jest", r"^\s*Tests:\s+.*\b[1-9]\d* passed.*$"),
    _rule("go test", r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\)).*$"),
    _rule("cargo test", r"^test result: ok\..*$"),
)
EXIT_CODE = re.compile(
    r"(?:<returncode>\s*"
    r"|\bexit(?:ed)?[ _-]?(?:code|status|with(?: code| status)?)[\"']?\s*[:=]?\s*"
    r"|\breturn[ _]?code[\"']?\s*[:=]\s*)(-?\d{1,10})",
    re.IGNORECASE,
)
ERRORS: tuple[Rule, ...] = (
    _rule("traceback", r"^Traceback \(most recent call last\):"),
    _rule("exception", r"^(?:[A-Za-z_][\w.]*)?(?:Error|Exception)\b(?::.*|$)"),
    _rule(
        "shell", r"^.*: (?:command not found|No such file or directory|Permission denied|not a directory).*$", ANY_CASE
    ),
    _rule("fatal", r"^(?:fatal|panic|error(?:\[E\d+\])?|ERR!|npm ERR!|Segmentation fault)\b[: (!].*$"),
    _rule(
        "tool error", r"^\s*(?:<error>|<tool_use_error>|tool (?:call )?(?:failed|error)\b|unknown tool\b).*$", ANY_CASE
    ),
    _rule("bad arguments", r"^\s*invalid (?:arguments?|parameters?|json)\b.*$", ANY_CASE),
    _rule(
        "error field",
        r"[\"'](?:error|is_?error)[\"']\s*:\s*(?!null|none|false|\"\"|''|\{\}|\[\]|0\b)[^\s,}]+",
        ANY_CASE,
    ),
    _rule("timeout", r"^.*\b(?:timed out|timeout expired|deadline exceeded)\b.*$", ANY_CASE),
    _rule(
        "patch", r"^.*\b(?:patch does not apply|hunk #?\d* ?failed|no match(?:es)? found for old_str)\b.*$", ANY_CASE
    ),
)

Tests = Literal["failed", "passed"]


class Environment(Source):
    """One vote per tool result, with the line that it relied on."""

    name = "environment"
    within = staticmethod(worst)

    def __init__(self, recovery: float = 0.5) -> None:
        self._recovery = recovery

    def looks_back(self, case: Case) -> bool:
        return needs_history(case.observations)

    async def judge(self, case: Case) -> Opinion:
        earlier = observations((*case.history, *case.before))
        return Opinion(tuple(_vote(text, earlier) for text in case.observations))


def tests_in(text: str) -> tuple[Tests, str] | None:
    """What a test run's summary says, and the line that says it; None without one."""
    shown = bounded(text)
    for verdict, rules in (("failed", TESTS_FAILED), ("passed", TESTS_PASSED)):
        for rule in rules:
            if match := rule.pattern.search(shown):
                return ("failed" if verdict == "failed" else "passed"), match[0].strip()
    return None


def needs_history(texts: Sequence[str]) -> bool:
    """Whether what came in earlier turns matters: tests passed, so did they fail before?"""
    return any((found := tests_in(text)) is not None and found[0] == "passed" for text in texts)


def _vote(text: str, earlier: Sequence[str]) -> Vote:
    value, evidence = _read(bounded(text), earlier)
    return Vote(source="environment", value=value, evidence=quote(evidence))


def _read(text: str, earlier: Sequence[str]) -> tuple[float, str]:
    tests = tests_in(text)
    if tests is not None:
        return _tests(tests, earlier)
    codes = [int(code) for code in EXIT_CODE.findall(text)]
    if codes:
        return (-1.0 if codes[-1] else 0.0), f"exit code {codes[-1]}"
    for rule in ERRORS:
        if match := rule.pattern.search(text):
            return -1.0, match[0].strip()
    return 0.0, text.strip().split("\n", 1)[0]


def _tests(found: tuple[Tests, str], earlier: Sequence[str]) -> tuple[float, str]:
    verdict, line = found
    if verdict == "failed":
        return -1.0, line
    runs = [run for text in earlier if (run := tests_in(text)) is not None]
    return (1.0, f"{line} (after: {runs[-1][1]})") if runs and runs[-1][0] == "failed" else (0.0, line)
