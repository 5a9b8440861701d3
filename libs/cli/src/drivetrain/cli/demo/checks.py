"""What a taste can ask of a reply: a small set of declared checks, each a pure function saying how a reply misses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from drivetrain.cli.demo.measures import is_list, names, sentences, words
from drivetrain.cli.demo.questions import Subject

MissKind = Literal[
    "too_long", "too_short", "listed", "not_listed", "no_subject", "wrong_start", "wrong_end", "lacks", "has"
]
"""The ways to miss that a person would complain about in different words."""

MISS_KINDS: tuple[MissKind, ...] = (
    "too_long", "too_short", "listed", "not_listed", "no_subject", "wrong_start", "wrong_end", "lacks", "has",
)  # fmt: skip


@dataclass(frozen=True)
class Miss:
    """One way in which a reply misses a taste: which check, of what kind, and how, for people to read."""

    check: str
    kind: MissKind
    how: str


def _begins(text: str, openings: tuple[str, ...]) -> bool:
    return text.strip().lower().startswith(tuple(opening.lower() for opening in openings))


def _ends(text: str, endings: tuple[str, ...]) -> bool:
    return text.strip().lower().endswith(tuple(ending.lower() for ending in endings))


def _holds(text: str, phrases: tuple[str, ...]) -> bool:
    return any(phrase.lower() in text.lower() for phrase in phrases)


def _quoted(phrases: tuple[str, ...]) -> str:
    return " or ".join(repr(phrase) for phrase in phrases)


def _counted(check: str, unit: str, count: int, low: int | None, high: int | None) -> Miss | None:
    if high is not None and count > high:
        return Miss(check, "too_long", f"{count} {unit}, wanted at most {high}")
    if low is not None and count < low:
        return Miss(check, "too_short", f"{count} {unit}, wanted at least {low}")
    return None


def check_sentences(text: str, subject: Subject, wanted: int) -> Miss | None:
    return _counted("sentences", "sentences", len(sentences(text)), wanted, wanted)


def check_max_sentences(text: str, subject: Subject, limit: int) -> Miss | None:
    return _counted("max_sentences", "sentences", len(sentences(text)), None, limit)


def check_min_words(text: str, subject: Subject, limit: int) -> Miss | None:
    return _counted("min_words", "words", len(words(text)), limit, None)


def check_max_words(text: str, subject: Subject, limit: int) -> Miss | None:
    return _counted("max_words", "words", len(words(text)), None, limit)


def check_max_chars(text: str, subject: Subject, limit: int) -> Miss | None:
    return _counted("max_chars", "characters", len(text.strip()), None, limit)


def check_list(text: str, subject: Subject, wanted: bool) -> Miss | None:
    if is_list(text) == wanted:
        return None
    return Miss("list", "not_listed", "no list") if wanted else Miss("list", "listed", "a list, wanted prose")


def check_names_subject(text: str, subject: Subject, wanted: bool) -> Miss | None:
    if not wanted or names(text, subject):
        return None
    return Miss("names_subject", "no_subject", f"does not name {subject.many}")


def check_starts_with(text: str, subject: Subject, openings: tuple[str, ...]) -> Miss | None:
    return None if _begins(text, openings) else Miss("starts_with", "wrong_start", f"no {_quoted(openings)} first")


def check_ends_with(text: str, subject: Subject, endings: tuple[str, ...]) -> Miss | None:
    return None if _ends(text, endings) else Miss("ends_with", "wrong_end", f"no {_quoted(endings)} at the end")


def check_contains(text: str, subject: Subject, phrases: tuple[str, ...]) -> Miss | None:
    return None if _holds(text, phrases) else Miss("contains", "lacks", f"lacks {_quoted(phrases)}")


def check_avoids(text: str, subject: Subject, phrases: tuple[str, ...]) -> Miss | None:
    return Miss("avoids", "has", f"has {_quoted(phrases)}") if _holds(text, phrases) else None


Check = Callable[..., Miss | None]

CHECKS: dict[str, tuple[Check, tuple[MissKind, ...]]] = {
    "list": (check_list, ("listed", "not_listed")),
    "sentences": (check_sentences, ("too_long", "too_short")),
    "max_sentences": (check_max_sentences, ("too_long",)),
    "max_words": (check_max_words, ("too_long",)),
    "max_chars": (check_max_chars, ("too_long",)),
    "min_words": (check_min_words, ("too_short",)),
    "names_subject": (check_names_subject, ("no_subject",)),
    "starts_with": (check_starts_with, ("wrong_start",)),
    "ends_with": (check_ends_with, ("wrong_end",)),
    "contains": (check_contains, ("lacks",)),
    "avoids": (check_avoids, ("has",)),
}
"""Every check by name, with the kinds of miss it can report, in the order in which a person would complain."""
