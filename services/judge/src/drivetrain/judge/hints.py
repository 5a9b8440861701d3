"""Hints: what a person told the assistant to do, kept as hindsight for the turn that made them say it.

A hint states what to do. It comes from directive sentences (instructions, wishes, remarks on form), never from the
question asked once more, and passes the leak check: nothing that a tool printed, no code, no quoted or expected value.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from drivetrain.common.events import Message
from drivetrain.judge import lexicon
from drivetrain.judge.reading import DIRECTIVE, Cue, Reading, matches, read
from drivetrain.judge.text import Clause, bounded, content_text, runs, spans_of_code, words_of

SHORTEST = 11
"""Characters of a hint; a Chinese one counts for three."""
LONGEST = 300
AT_MOST = 3
RUN = 4
"""Consecutive words shared with tool output or code that make a hint a leak; of Chinese, consecutive characters."""

_LEADING = re.compile(
    r"^(?:but|and|so|then|ok|okay|well|hmm|also|however|although|though)\b[\s,]*|^[\s,.;:)–—，。；：、！-]+|^(?:但是|但(?!是)|不过|可是|所以|那)(?=.{3})",
    re.IGNORECASE,
)
_MARKED = re.compile(r"[`\"“”«»「」『』]|'[^'\s][^']*'(?!\w)")
_HAN = re.compile(r"[\u3400-\u9fff]")
_EXPECTED = re.compile(
    r"(?:expected|actual|got|want(?:ed)?|received|should (?:be|equal)|==|!=)\s*(?:value)?\s*[:=]?\s*(\S{1,80})",
    re.IGNORECASE,
)
_DISTINCT = re.compile(r"[\w./\\-]*(?:\d[\w./\\-]{2,}|[\w-]*[_/\\][\w./\\-]+|[a-z]+[A-Z]\w*)")

_WISHED = re.compile(r"(?:something|just|only|one|an?|no|more|less|fewer)\b(?: \w+){1,7}$")
_LESS = re.compile(r"(?:(?:and|but|maybe|a bit|much) )*(?:less|fewer) (\w+)(?: \w+){0,2}")
_ADVICE = {
    "figure": (
        "Work it out step by step, and check every number, date and time, before answering.",
        "先分步算清楚，核对每个数字、日期和时间，再回答。",
    ),
    "lacks": (
        "Cover all that was asked for, and leave nothing of it out.",
        "把要求的内容都写到，一样也不漏。",
    ),
}
"""By what was amiss: in English, and in Chinese."""


@dataclass(frozen=True)
class Leaks:
    """What a hint must not carry: runs of words, distinctive tokens and expected values of tool output and code."""

    runs: frozenset[tuple[str, ...]]
    tokens: frozenset[str]

    @classmethod
    def of(cls, outputs: Iterable[str], written: Iterable[str] = ()) -> "Leaks":
        """From tool outputs, and from messages of which only the code and quotes count."""
        texts = [bounded(text) for text in outputs]
        texts += [span for text in written for span in spans_of_code(bounded(text))]
        tokens = (token for text in texts for token in (*_DISTINCT.findall(text), *_EXPECTED.findall(text)))
        return cls(
            frozenset(run for text in texts for run in runs(_units(text), RUN)),
            frozenset(bare for token in tokens if len(bare := token.strip(".,;:'\"()[]{}").lower()) > 1),
        )

    def found_in(self, hint: str) -> bool:
        """Whether a hint carries marked-up code or a quote, or overlaps with what must not leak."""
        if _MARKED.search(hint):
            return True
        tokens = {token.strip(".,;:'\"()[]{}!?").lower() for token in hint.split()}
        return bool(tokens & self.tokens) or not self.runs.isdisjoint(runs(_units(hint), RUN))


def directives(text: str, earlier: Sequence[str] = ()) -> list[str]:
    """The parts of a person's message that tell the assistant what to do, in order, each as one sentence."""
    return directives_of(text, read(text, earlier))


def directives_of(text: str, reading: Reading) -> list[str]:
    """The same of a message that has been read."""
    wanted = {id(cue.clause) for cue in reading.cues if _directs(cue)}
    wanted |= {id(clause) for clause in _plain_wishes(text, reading)}
    found: list[list[Clause]] = []
    for clause in reading.clauses:
        follows = bool(found) and clause.text in ("please", "thanks", "thank you", "谢谢")
        if id(clause) not in wanted and not follows:
            continue
        if found and found[-1][-1].sentence == clause.sentence and _adjacent(text, found[-1][-1], clause):
            found[-1].append(clause)
        elif not follows:
            found.append([clause])
    return [_sentence(bounded(text)[group[0].start : group[-1].end]) for group in found]


def advice_of(reading: Reading) -> list[str]:
    """What would have spared an objection that does not say what to do: a wrong figure, or something left out."""
    amiss = dict.fromkeys((cue.amiss, cue.clause.han) for cue in reading.cues if cue.value < 0 and cue.amiss)
    return [_ADVICE[what][han] for what, han in amiss]


def accept(candidates: Iterable[str], leaks: Leaks) -> list[str]:
    """At most three hints, shortest first, without copies, too short or overlong ones, and leaks."""
    unique: dict[tuple[str, ...], str] = {}
    for candidate in candidates:
        hint = " ".join(candidate.split())
        if len(hint) + 2 * len(_HAN.findall(hint)) >= SHORTEST and len(hint) <= LONGEST and not leaks.found_in(hint):
            unique.setdefault(tuple(words_of(hint)), hint)
    return sorted(unique.values(), key=lambda hint: (len(hint), hint))[:AT_MOST]


def leaks_of(outputs: Sequence[str], messages: Iterable[Message], said: Sequence[str]) -> Leaks:
    """What the tools printed and what code or quotes the conversation holds."""
    return Leaks.of(outputs, [*(content_text(message) for message in messages), *said])


def _directs(cue: Cue) -> bool:
    """An instruction, a wish, or "I asked for <form>, not <form>": what to do, not only what was wrong."""
    words, form = set(cue.clause.words), lexicon.FORM | lexicon.QUALITY
    if cue.value >= 0 or (cue.kind == "form" and matches(lexicon.STATEMENT, cue.clause.text)):
        return False
    return cue.kind in DIRECTIVE or (
        cue.kind == "mismatch" and bool(words & form) and ("i" in words or cue.clause.words[0] == "not")
    )


def _plain_wishes(text: str, reading: Reading) -> list[Clause]:
    """Wishes without a verb: "something shorter, please", "and less cheerful"."""
    asked_for = [
        clause
        for clause, after in pairwise(reading.clauses)
        if after.text == "please" and _WISHED.match(clause.text) and _adjacent(text, clause, after)
    ]
    less = [(clause, _LESS.fullmatch(clause.text)) for clause in reading.clauses]
    return asked_for + [clause for clause, found in less if found and found[1] not in lexicon.PRAISE]


def _adjacent(text: str, before: Clause, after: Clause) -> bool:
    return len(text[before.end : after.start].strip(" ,;-–—()，、；")) == 0


def _units(text: str) -> list[str]:
    """Words, and the characters of Chinese."""
    return [unit for word in words_of(text) for unit in (word if _HAN.search(word) else (word,))]


def _sentence(raw: str) -> str:
    bare = raw.strip()
    while (shorter := _LEADING.sub("", bare)) != bare:
        bare = shorter
    bare = bare.rstrip(" ,;:-–—(，；：、")
    if _HAN.search(bare):
        return bare if bare[-1] in "。！？…!?~～" else f"{bare}。"
    if bare.endswith("?") and words_of(bare)[:1] not in (["can"], ["could"], ["would"], ["will"]):
        bare = bare.rstrip("?!. ")
    if not bare:
        return ""
    return bare[0].upper() + bare[1:] + ("" if bare[-1] in ".!?…" else ".")
