"""Read what a person writes after a reply: which clauses approve, which object, which tell the assistant what to do.

Pure: the phrases of `lexicon` against each clause, no list of sentences, no model. A clause counts only when it is
about the reply; one that brings in a subject of its own ("why do bad tyres burst?") is a new question and is silent.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from drivetrain.judge import lexicon
from drivetrain.judge.lexicon import Kind, Phrase
from drivetrain.judge.text import Clause, bounded, clauses_of, stem, words_of

_ADVERB = re.compile(r"^(?!family|italy|july|belly|jelly|butterfly|dragonfly|sicily|assembly|anomaly)\w{3,}ly$")
MOST_CLAUSES = 40
DIRECTIVE: tuple[str, ...] = ("instruction", "preference", "form")


@dataclass(frozen=True)
class Cue:
    """One thing a clause says of the reply: its kind, +1 or -1, and the clause as written."""

    kind: Kind | Literal["restated", "form", "remark", "emoji"]
    value: int
    weak: bool
    clause: Clause


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


def read(text: str, earlier: Sequence[str] = ()) -> Reading:
    """Read a person's message; `earlier` are the messages that the reply answered.

    An objection outweighs thanks in the same message. A bare remark on form ("one sentence") is a wish by itself and
    a compliment beside thanks.
    """
    clauses = _some(clauses_of(bounded(text)))
    asked = _some([clause for message in earlier[-10:] for clause in clauses_of(bounded(message))])
    known = frozenset(stem(word) for clause in asked for word in clause.words)
    cues = [cue for clause in clauses for cue in _cues(clause, asked, known)]
    cues = _settle_no(cues, clauses) + _emoji(text)
    return Reading(
        tuple(cues),
        tuple(clauses),
        _verdict(cues, any(clause.asks and content_words(clause) - known for clause in clauses)),
    )


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern of the lexicon occurs in normalised text."""
    return _compiled(pattern).search(text) is not None


def _some(clauses: Sequence[Clause]) -> list[Clause]:
    """The first and last clauses of a long message: people react there, and what lies between is material."""
    half = MOST_CLAUSES // 2
    return list(clauses) if len(clauses) <= MOST_CLAUSES else [*clauses[:half], *clauses[-half:]]


@functools.lru_cache(maxsize=512)
def content_words(clause: Clause) -> frozenset[str]:
    """The stems of a clause's words that carry its subject: neither grammar, nor form, nor evaluation."""
    return _content(clause.text)


def _content(text: str) -> frozenset[str]:
    product = _compiled(lexicon.PRODUCT).search(text)
    stems = frozenset([f"a {product[1]}"] if product else ()) | frozenset(
        stem(word) for word in text.split() if not _ADVERB.search(word)
    )
    return stems - _vocabulary()


def restates(clause: Clause, asked: Iterable[Clause]) -> bool:
    """Whether a clause asks once more what was asked: the same subject words, not one swapped for another."""
    return any(_same_question(clause, before) for before in asked)


def _cues(clause: Clause, asked: Sequence[Clause], known: frozenset[str]) -> list[Cue]:
    if restates(clause, asked):
        wish = not clause.asks and clause.words[0] != "you" and matches(lexicon.MANNER, clause.text)
        return [Cue("restated", -1, False, clause), *([Cue("instruction", -1, False, clause)] if wish else [])]
    cues, rest = _match(clause.text, lexicon.IDIOMS, clause, True)
    fresh = _content(rest) - known
    about = _about(clause, fresh)
    if _question(clause) and fresh and not about:
        return [cue for cue in cues if cue.value > 0 and not cue.weak]
    more, _ = _match(rest, lexicon.PHRASES, clause, about)
    cues += [cue for cue in more if cue.value < 0 or not clause.asks or ("thank" in rest and cue.value)]
    if not cues and not fresh and about and _is_form(rest):
        cues.append(Cue("form", -1, True, clause))
    if not cues and about and not clause.asks and _compiled(lexicon.REMARK).search(rest):
        cues.append(Cue("remark", -1, True, clause))
    return cues


def _match(text: str, phrases: Iterable[Phrase], clause: Clause, about: bool) -> tuple[list[Cue], str]:
    found = []
    for phrase in phrases:
        if phrase.about and not about:
            continue
        rest, count = _compiled(phrase.pattern, phrase.value > 0).subn("", text)
        if count:
            found.append(Cue(phrase.kind, phrase.value, phrase.weak, clause))
            text = " ".join(rest.split()) if phrases is lexicon.IDIOMS else text
    return found, text


def _about(clause: Clause, fresh: frozenset[str]) -> bool:
    """Whether a clause speaks of the reply: nothing new in it, or the assistant or the reply as its subject."""
    words = clause.words
    if not fresh and clause.asks and words[0] in lexicon.INTERROGATIVES:
        return matches(lexicon.POINTS_BACK, clause.text)
    if not fresh:
        return not matches(lexicon.OWN_STORY, clause.text)
    if _question(clause) or words[0] in lexicon.SUBORDINATORS:
        return matches(lexicon.ASKS_THE_ASSISTANT, clause.text)
    if _compiled(lexicon.OWN_STORY).search(clause.text):
        return matches(r"<REPLY_NOUN>", clause.text)
    if _compiled(r"\b(?:you|your)\b").search(clause.text):
        return True
    return matches(lexicon.ABOUT_THE_REPLY, clause.text)


def _question(clause: Clause) -> bool:
    rest = [word for word in clause.words if word not in lexicon.OPENERS]
    statement = len(rest) > 1 and rest[1] in {"you", "i", "a", "an"}  # "what you wrote", "what a mess"
    return clause.asks or (bool(rest) and rest[0] in lexicon.INTERROGATIVES and not statement)


def _is_form(text: str) -> bool:
    """Whether a clause without a subject of its own speaks of form: "one sentence", "in French", "no bullets"."""
    words = set(text.split())
    return bool(words & (lexicon.FORM | lexicon.QUALITY - {"much", "many", "more", "little", "full"}))


def _same_question(clause: Clause, before: Clause) -> bool:
    new, old = content_words(clause), content_words(before)
    if not new or not old or _asks_otherwise(clause, before):
        return False
    shared = len(new & old)
    if new <= old:
        return shared / len(old) >= 0.5
    close = shared / len(new) >= 0.7 and shared / len(old) >= 0.5 and len(new) > 2
    return close and not _swapped(clause, before)


def _asks_otherwise(clause: Clause, before: Clause) -> bool:
    """Whether one asks when, where, who or why and the other something else."""
    new = next((word for word in clause.words if word in lexicon.INTERROGATIVES), None)
    old = next((word for word in before.words if word in lexicon.INTERROGATIVES), None)
    return new != old and None not in (new, old) and bool({new, old} & lexicon.SPECIFIC)


def _swapped(clause: Clause, before: Clause) -> bool:
    """Whether the wording is the same but for an exchanged word: another question in the same mould."""
    return SequenceMatcher(None, clause.words, before.words, autojunk=False).ratio() >= 0.7


def _settle_no(cues: list[Cue], clauses: Sequence[Clause]) -> list[Cue]:
    """A bare "no" before praise answers something else ("no, that's perfect"): it objects to nothing."""
    rest = [cue for cue in cues if cue.clause.text not in {"no", "nope", "nah"}]
    return rest if rest and all(cue.value > 0 for cue in rest) else cues


def _emoji(text: str) -> list[Cue]:
    shown = bounded(text).lower()
    nothing = Clause("", 0, 0, (), False, 0)
    return [
        Cue("emoji", value, value > 0, Clause(mark, 0, 0, (), False, 0) if mark else nothing)
        for mark, value in lexicon.EMOJI.items()
        if mark in shown
    ]


def _verdict(cues: Sequence[Cue], moves_on: bool) -> int:
    if any(cue.value < 0 and not cue.weak for cue in cues):
        return -1
    approved = [cue for cue in cues if cue.value > 0]
    wishes = [cue for cue in cues if cue.value < 0 and not (cue.kind == "remark" and moves_on)]
    if approved and wishes and any(cue.clause.words[0] in lexicon.CONTRASTS for cue in wishes if cue.clause.words):
        return -1
    if approved:
        return 1
    return -1 if wishes else 0


@functools.cache
def _vocabulary() -> frozenset[str]:
    """Every word that says how, not what: a clause made of these alone is about the reply."""
    verbs = {form for word in lexicon.FORM_VERB for form in (word, f"{word}s", f"{word}ed", f"{word}ing")}
    words = frozenset().union(
        lexicon.PRAISE, lexicon.BLAME, lexicon.QUALITY, lexicon.FORM, lexicon.COUNT, verbs, lexicon.ASKING,
        lexicon.FUNCTION, lexicon.PREFERENCE_STEM, lexicon.INTERROGATIVES, lexicon.AUXILIARIES, lexicon.COMPARATIVE,
        words_of("thanks thank thx cheers again love hate dislike tired sick fan more preference rule request"),
    )  # fmt: skip
    return frozenset(map(stem, words))


@functools.cache
def _compiled(pattern: str, unless_negated: bool = False) -> re.Pattern[str]:
    """A phrase with its classes filled in, matched at word boundaries, and not after "not" if so wished."""
    while names := re.findall(r"<([A-Z_]+)>", pattern):
        for name in names:
            pattern = pattern.replace(f"<{name}>", _alternatives(getattr(lexicon, name)))
    before = r"(?<!\w)(?<!not )(?<!never )(?<!hardly )" if unless_negated else r"(?<!\w)"
    return re.compile(rf"{before}(?:{pattern})(?!\w)")


def _alternatives(meant: frozenset[str] | str) -> str:
    """A word class or a pattern by name, as one group."""
    if isinstance(meant, str):
        return f"(?:{meant})"
    return "(?:" + "|".join(sorted(map(re.escape, meant), key=lambda word: (-len(word), word))) + ")"
