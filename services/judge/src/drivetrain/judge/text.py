"""Plain text from chat messages, cut into clauses and words. No rule lives here."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from drivetrain.common.events import Message

LONGEST = 20_000
"""Characters of one message that rules look at: its beginning and its end."""

MOST_WORDS = 60
"""Words of one clause that rules look at."""

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_QUOTED = re.compile(r'"[^"\n]{1,400}"|“[^”\n]{1,400}”|«[^»\n]{1,400}»|「[^」\n]{1,400}」|『[^』\n]{1,400}』')
_END = ".!?;:…。！？；："
_SENTENCE = re.compile(rf"[^{_END}\n]+(?:(?<=\d)[.:](?=\d)[^{_END}\n]+)*[{_END}]*|[{_END}]+")
_CLAUSE = re.compile(
    r",\s+|\s*，\s*|(?<=[\u4e00-\u9fff]),|\s[-–]{1,2}\s|\s*—\s*|\s*\(|\)\s*|（|）|\s+(?=but\s|however\s|although\s)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*", re.UNICODE)
_HAN = re.compile(r"[\u3400-\u9fff]")
_DRAWN = re.compile(r"([^\W\d_])\1{2,}")  # "sooo looong"
_ENDINGS = (("ing", 3), ("ied", 3), ("ies", 3), ("ed", 3), ("s", 3), ("ly", 3), ("e", 4))
_CONTRACTIONS = (
    (re.compile(r"\bcan'?t\b"), "can not"),
    (re.compile(r"\bcannot\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\b(do|does|did|is|was|are|were|has|have|had|could|would|should|need|must)n'?t\b"), r"\1 not"),
    (re.compile(r"\b(i)'?m\b"), r"\1 am"),
    (re.compile(r"\b(that|it|what|there|where|here|who|how|this|he|she)'s\b"), r"\1 is"),
    (re.compile(r"\b(thats|whats)\b"), lambda m: f"{m[0][:-1]} is"),
    (re.compile(r"\blet's\b"), "let us"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"'d\b"), " would"),
    (re.compile(r"'s\b"), " s"),
    (re.compile(r"\b(gimme)\b"), "give me"),
    (re.compile(r"\b(pls|plz|plese)\b"), "please"),
    (re.compile(r"\b(ur)\b"), "your"),
    (re.compile(r"\bu\b"), "you"),
)
_UNMARKED = re.compile(
    r"\b(?:can(?:no)?t|(?:do|does|did|is|was|are|were|has|have|had|could|would|should|need|must)nt|im|thats|whats|gimme"
    r"|pls|plz|plese|ur|u)\b"
)
"""What contractions look for where there is no apostrophe. Most texts hold neither."""


@dataclass(frozen=True)
class Clause:
    """A clause: the characters `[start, end)` of its message, its normalised words, whether it asks."""

    raw: str
    start: int
    end: int
    words: tuple[str, ...]
    asks: bool
    sentence: int

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @cached_property
    def han(self) -> bool:
        """Whether it is written in Chinese characters."""
        return _HAN.search(self.raw) is not None


def content_text(message: Message) -> str:
    """The text of a message whose content is a string, a list of parts, or absent; anything else reads as empty."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def texts_of(messages: Iterable[Message], *roles: str) -> list[str]:
    """The non-empty texts of the messages with one of these roles, in order."""
    found = (content_text(message) for message in messages if message.get("role") in roles)
    return [text for text in found if text.strip()]


def bounded(text: str, limit: int = LONGEST) -> str:
    """At most `limit` characters: a longer text keeps its first and its last half."""
    return text if len(text) <= limit else f"{text[: limit // 2]}\n{text[-(limit // 2) :]}"


def without_code(text: str) -> str:
    """The text with code and quoted spans blanked out, character for character, so that positions stay true."""
    return _QUOTED.sub(_blank, _CODE.sub(_blank, text))


def spans_of_code(text: str) -> list[str]:
    """The code and quoted spans that `without_code` blanks out, without their marks."""
    spans = [match[0].strip("`") for match in _CODE.finditer(text)]
    spans += [match[0][1:-1] for match in _QUOTED.finditer(_CODE.sub(_blank, text))]
    return [span for span in spans if span.strip()]


def words_of(text: str) -> list[str]:
    """Lower-case words, contractions spelled out, punctuation gone."""
    plain = _DRAWN.sub(r"\1", text.lower()).replace("’", "'").replace("‘", "'")
    if "'" in plain or _UNMARKED.search(plain):
        for pattern, replacement in _CONTRACTIONS:
            plain = pattern.sub(replacement, plain)
    return _WORD.findall(plain)


def clauses_of(text: str) -> list[Clause]:
    """The clauses of a text, in order. A clause asks when its sentence ends with a question mark."""
    prose = without_code(text)
    return [clause for number, match in enumerate(_SENTENCE.finditer(prose)) for clause in _cut(match, number)]


def _cut(sentence: re.Match[str], number: int) -> Iterator[Clause]:
    body = sentence[0]
    last = body.rstrip().endswith(("?", "？")) or bool({"?", "？"} & set(body[-3:]))
    bounds = [0, *(edge for cut in _CLAUSE.finditer(body) for edge in cut.span()), len(body)]
    cuts = [(a, b, words_of(body[a:b])) for a, b in zip(bounds[::2], bounds[1::2], strict=True)]
    pieces = [cut for cut in cuts if cut[2]]
    for a, b, words in pieces:
        yield Clause(
            body[a:b].strip(),
            sentence.start() + a,
            sentence.start() + b,
            tuple(words[:MOST_WORDS]),
            last and (a, b, words) == pieces[-1],
            number,
        )


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """A crude stem, enough to match "plants" with "plant" and "making" with "make"."""
    for ending, shortest in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= shortest and not word.endswith("ss"):
            return word[: -len(ending)].removesuffix("e") if len(word) - len(ending) > 4 else word[: -len(ending)]
    return word


def runs(words: Sequence[str], length: int) -> set[tuple[str, ...]]:
    """Every run of `length` consecutive words."""
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])
