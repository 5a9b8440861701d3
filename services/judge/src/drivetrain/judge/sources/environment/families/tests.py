"""Summaries of test runners and of checkers, failed and passed. They count anywhere in an output."""

import re
from typing import Literal, NamedTuple

Verdict = Literal["failed", "passed"]


class Summary(NamedTuple):
    """How one runner sums up a run."""

    runner: str
    verdict: Verdict
    pattern: re.Pattern[str]


def _failed(runner: str, pattern: str) -> Summary:
    return Summary(runner, "failed", re.compile(pattern, re.MULTILINE))


def _passed(runner: str, pattern: str) -> Summary:
    return Summary(runner, "passed", re.compile(pattern, re.MULTILINE))


SUMMARIES: tuple[Summary, ...] = (
    _failed("pytest", r"^=*.*\b[1-9]\d* (?:failed|errors?)\b.* in [\d.]+ ?m?s\b.*$"),
    _failed("unittest", r"^FAILED \((?:failures|errors|unexpected successes)=.*$"),
    _failed("jest", r"^\s*Tests:\s+.*\b[1-9]\d* failed.*$"),
    _failed("vitest", r"^\s*Tests\s+(?:.*\| )?[1-9]\d* failed.*$"),
    _failed("mocha", r"^\s+[1-9]\d* failing$"),
    _failed("node --test", r"^[#ℹ] fail [1-9]\d*$"),
    _failed("tap", r"^not ok \d+\b.*$"),
    _failed("go test", r"^(?:--- FAIL:.*|FAIL\s+\S+.*|FAIL)$"),
    _failed("cargo test", r"^test result: FAILED.*$"),
    _failed("maven", r"^.*Tests run: \d+, (?:Failures: [1-9]|Failures: \d+, Errors: [1-9]).*$"),
    _failed("gradle", r"^\d+ tests completed, [1-9]\d* failed.*$"),
    _failed("rspec", r"^\d+ examples?, [1-9]\d* failures?.*$"),
    _failed("phpunit", r"^(?:FAILURES!|ERRORS!)$"),
    _failed("dotnet test", r"^Failed!\s+- Failed:\s+[1-9].*$"),
    _failed("ctest", r"^\d+% tests passed, [1-9]\d* tests? failed.*$"),
    _failed("mypy, ruff, tsc", r"^Found [1-9]\d* errors?\b.*$"),
    _failed("eslint", r"^✖ [1-9]\d* problems? \([1-9]\d* error.*$"),
    _passed("pytest", r"^=*.*\b[1-9]\d* passed\b.* in [\d.]+ ?m?s\b.*$"),
    _passed("unittest", r"^Ran [1-9]\d* tests? in [\d.]+s\s+OK\b.*$"),
    _passed("jest", r"^\s*Tests:\s+.*\b[1-9]\d* passed.*$"),
    _passed("vitest", r"^\s*Tests\s+[1-9]\d* passed.*$"),
    _passed("mocha", r"^\s+[1-9]\d* passing\b.*$"),
    _passed("node --test", r"^[#ℹ] pass [1-9]\d*$"),
    _passed("go test", r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\)).*$"),
    _passed("cargo test", r"^test result: ok\. [1-9].*$"),
    _passed("maven", r"^.*Tests run: [1-9]\d*, Failures: 0, Errors: 0.*$"),
    _passed("gradle", r"^BUILD SUCCESSFUL in .*$"),
    _passed("rspec", r"^[1-9]\d* examples?, 0 failures.*$"),
    _passed("phpunit", r"^OK \([1-9]\d* tests?.*$"),
    _passed("dotnet test", r"^Passed!\s+- Failed:\s+0.*$"),
    _passed("ctest", r"^100% tests passed.*$"),
    _passed("mypy", r"^Success: no issues found in .*$"),
    _passed("ruff", r"^All checks passed!$"),
)


def tests_in(text: str) -> tuple[Verdict, str] | None:
    """What a run's summary says, and the line that says it; None without one. A failure outweighs a pass."""
    for summary in SUMMARIES:
        if match := summary.pattern.search(text):
            return summary.verdict, " ".join(match[0].split())
    return None
