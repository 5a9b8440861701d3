"""Secrets and personal data out of a text before it leaves the house."""

import re

from drivetrain.judge.text import bounded

MARGIN = 4_096
"""Characters around a cut that are looked at too, so that half a secret at the cut is seen as one."""

_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        # A block that does not begin or end here was cut: all on its side of the mark goes.
        (
            "private key",
            r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----.*?(?:-----END [A-Z ]{0,60}-----|\Z)",
        ),
        ("private key", r"(?s)\A.*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"),
        (
            "key",
            r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}"
            r"|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bxox[a-z]-[A-Za-z0-9-]{10,}|\bAIza[\w-]{30,}"
            r"|\b(?:hf|npm|pypi|dop_v1)[_-][A-Za-z0-9_-]{20,}|\bdt[kr]_[\w.-]{20,}",
        ),
        ("token", r"(?i:\bbearer\s+)[\w.~+/=-]{12,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
        ("password", r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{0,100}:[^\s/@\"']{1,200}@"),
        (
            "secret",
            r"(?i)(?<![A-Za-z])(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key)[\w-]{0,20}"
            r"[\"']?\s{0,4}[:=]\s{0,4}[\"']?[^\s\"',;]{6,}",
        ),
        ("e-mail", r"\b[\w.%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,5}\b"),
        (
            "phone",
            r"(?<![\w.])\+\d(?:[ .()-]{0,2}\d){7,14}(?!\w)"
            r"|(?<![\w.-])\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?![\w-])"
            r"|(?<!\d)1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?!\d)"
            r"|(?<![\w.-])0\d{2,4}[ /-]\d{3,4}[ -]?\d{3,5}(?![\w-])",
        ),
    )
)


def redacted(text: str, limit: int) -> str:
    """At most about `limit` characters of a text, its first and last half, with secrets, e-mail addresses and phone
    numbers replaced by their kind in brackets."""
    if len(text) <= limit:
        return _masked(text)
    half = limit // 2
    # The words at the cut are left out: half a key has no shape.
    head = text[: half + MARGIN].rsplit(maxsplit=1)[0]
    tail = text[-(half + MARGIN) :].split(maxsplit=1)[-1]
    return bounded(f"{_masked(head)}\n{_masked(tail)}", limit)


def _masked(text: str) -> str:
    for name, pattern in _PATTERNS:
        text = pattern.sub(f"[{name}]", text)
    return text
