"""What a clause is about: its subject words, and whether it asks once more what was asked."""

import functools
import re
from collections.abc import Iterable
from difflib import SequenceMatcher

from drivetrain.judge import lexicon
from drivetrain.judge.reading.matching import compiled
from drivetrain.judge.text import Clause, stem, words_of

_ADVERB = re.compile(r"^(?!family|italy|july|belly|jelly|butterfly|dragonfly|sicily|assembly|anomaly)\w{3,}ly$")


@functools.lru_cache(maxsize=512)
def content_words(clause: Clause) -> frozenset[str]:
    """The stems of a clause's words that carry its subject: neither grammar, nor form, nor evaluation."""
    return content(clause.text)


def content(text: str) -> frozenset[str]:
    """The same of normalised text."""
    product = compiled(lexicon.PRODUCT).search(text)
    stems = frozenset([f"a {product[1]}"] if product else ()) | frozenset(
        stem(word) for word in text.split() if not _ADVERB.search(word)
    )
    return stems - _vocabulary()


def restates(clause: Clause, asked: Iterable[Clause]) -> bool:
    """Whether a clause asks once more what was asked: the same subject words, not one swapped for another."""
    return any(_same_question(clause, before) for before in asked)


def _same_question(clause: Clause, before: Clause) -> bool:
    new, old = content_words(clause), content_words(before)
    if not clause.asks and _states(clause):
        return False
    request = before.asks or len(before.words) > 2 or len(clause.words) < 4
    if not new or not old or not request or _asks_otherwise(clause, before):
        return False
    if not clause.asks and len(before.words) > 2 and clause.words[: len(before.words)] == before.words:
        return True
    shared = len(new & old)
    if new <= old:
        return shared / len(old) >= 0.5
    close = shared / len(new) >= 0.7 and shared / len(old) >= 0.5 and len(new) > 2
    return close and not _swapped(clause, before)


def _states(clause: Clause) -> bool:
    """Whether a clause says what something is: "the paint is ten years old"."""
    opens = clause.words[0]
    return opens in {"the", "a", "an", "my", "our", "his", "her", "their"} and bool(
        lexicon.AUXILIARIES & set(clause.words[1:4])
    )


def _asks_otherwise(clause: Clause, before: Clause) -> bool:
    """Whether one asks when, where, who or why and the other something else."""
    new = next((word for word in clause.words if word in lexicon.INTERROGATIVES), None)
    old = next((word for word in before.words if word in lexicon.INTERROGATIVES), None)
    return new != old and None not in (new, old) and bool({new, old} & lexicon.SPECIFIC)


def _swapped(clause: Clause, before: Clause) -> bool:
    """Whether the wording is the same but for an exchanged word: another question in the same mould."""
    return SequenceMatcher(None, clause.words, before.words, autojunk=False).ratio() >= 0.7


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
