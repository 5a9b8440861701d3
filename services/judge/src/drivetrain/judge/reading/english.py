"""Cues of a clause in English. A clause counts only when it is about the reply; one that brings in a subject of its own
("why do bad tyres burst?") is a new question and is silent."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drivetrain.judge import lexicon
from drivetrain.judge.lexicon import Phrase
from drivetrain.judge.reading.cues import Cue
from drivetrain.judge.reading.matching import compiled, matches
from drivetrain.judge.reading.subject import content, restates
from drivetrain.judge.text import Clause, stem


@dataclass(frozen=True)
class Scene:
    """What was asked, as clauses, and the stems of its words."""

    asked: tuple[Clause, ...]
    known: frozenset[str]

    @classmethod
    def of(cls, asked: Sequence[Clause]) -> "Scene":
        return cls(tuple(asked), frozenset(stem(word) for clause in asked for word in clause.words))


def prepare() -> None:
    """Compile what every clause is held against, so that the first message does not wait for it."""
    for phrase in (*lexicon.IDIOMS, *lexicon.PHRASES):
        compiled(phrase.pattern, phrase.value > 0)


def cues(clause: Clause, scene: Scene) -> list[Cue]:
    """The cues of a clause."""
    if clause.asks and clause.start > 0 and clause.text in lexicon.TAGS:
        return []
    found, rest = _match(clause.text, lexicon.IDIOMS, clause, True)
    if restates(clause, scene.asked) and not any(cue.value > 0 and not cue.weak for cue in found):
        wish = not clause.asks and clause.words[0] != "you" and matches(lexicon.MANNER, clause.text)
        return [Cue("restated", -1, False, clause), *([Cue("instruction", -1, False, clause)] if wish else [])]
    fresh = content(rest) - scene.known
    about = _about(clause, fresh) and not matches(lexicon.OF_THE_WORLD, clause.text)
    if _question(clause) and fresh and not about:
        return [cue for cue in found if (cue.value > 0 and not cue.weak) or cue.kind in ("instruction", "doubt")]
    if fresh and matches(lexicon.MOVES_ON, clause.text):
        return [cue for cue in found if cue.value > 0]
    more, _ = _match(rest, lexicon.PHRASES, clause, about)
    found += [cue for cue in more if cue.value < 0 or not clause.asks or ("thank" in rest and cue.value)]
    if not found and not fresh and about and _is_form(rest) and not _opens_question([*clause.words]):
        found.append(Cue("form", -1, True, clause))
    if not found and not clause.asks and ((about and matches(lexicon.REMARK, rest)) or matches(lexicon.DENIAL, rest)):
        found.append(Cue("remark", -1, True, clause))
    return found


def _match(text: str, phrases: Iterable[Phrase], clause: Clause, about: bool) -> tuple[list[Cue], str]:
    found = []
    for phrase in phrases:
        if (phrase.about and not about) or (phrase.asks and not clause.asks):
            continue
        rest, count = compiled(phrase.pattern, phrase.value > 0).subn("", text)
        if count:
            found.append(Cue(phrase.kind, phrase.value, phrase.weak, clause))
            text = " ".join(rest.split()) if phrases is lexicon.IDIOMS else text
    return found, text


def _about(clause: Clause, fresh: frozenset[str]) -> bool:
    """Whether a clause speaks of the reply: nothing new in it, or the assistant or the reply as its subject."""
    words = clause.words
    if not fresh and _question(clause) and words[0] in lexicon.INTERROGATIVES:
        return matches(lexicon.POINTS_BACK, clause.text)
    if not fresh:
        return not matches(lexicon.OWN_STORY, clause.text)
    if _question(clause) or words[0] in lexicon.SUBORDINATORS:
        return matches(lexicon.ASKS_THE_ASSISTANT, clause.text)
    if compiled(lexicon.OWN_STORY).search(clause.text):
        return matches(r"<REPLY_NOUN>", clause.text)
    if compiled(r"\b(?:you|your)\b").search(clause.text):
        return True
    return matches(lexicon.ABOUT_THE_REPLY, clause.text)


def _question(clause: Clause) -> bool:
    return clause.asks or _opens_question([word for word in clause.words if word not in lexicon.OPENERS])


def _opens_question(words: list[str]) -> bool:
    """Whether words open a question; "what you wrote" and "what a mess" are statements."""
    return bool(words) and words[0] in lexicon.INTERROGATIVES and words[1:2] not in (["you"], ["i"], ["a"], ["an"])


def _is_form(text: str) -> bool:
    """Whether a clause without a subject of its own speaks of form: "one sentence", "in French", "no bullets"."""
    words = set(text.split())
    return bool(words & (lexicon.FORM | lexicon.QUALITY - {"much", "many", "more", "little", "full"}))
