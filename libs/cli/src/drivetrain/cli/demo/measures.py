"""What can be measured of a text: its words, its sentences, whether it is a list, whether it names a subject."""

import re

from drivetrain.cli.demo.questions import Subject

_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|mr|mrs|ms|dr|st|no|ca|approx|u\.s|u\.k|[a-z])\.$", re.IGNORECASE)
_ENDING = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s|$)")
_LIST_LINE = re.compile(r"^\s*(?:[-*•–+]\s+|\d{1,2}[.)]\s+|#{1,6}\s+)", re.MULTILINE)
_INLINE_LIST = re.compile(r"(?:^|\s)1[.)]\s.*\s2[.)]\s", re.DOTALL)
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def words(text: str) -> list[str]:
    """The words of a text; hyphens and apostrophes hold a word together."""
    return _WORD.findall(text)


def sentences(text: str) -> list[str]:
    """The sentences of a text. A line break ends one, as does a final stop; common abbreviations do not."""
    return [part for line in text.splitlines() for part in _split_line(line)]


def _split_line(line: str) -> list[str]:
    parts, start = [], 0
    for ending in _ENDING.finditer(line):
        if ending.group() == "." and _ABBREVIATION.search(line[start : ending.end()]) and ending.end() < len(line):
            continue
        parts.append(line[start : ending.end()])
        start = ending.end()
    parts.append(line[start:])
    return [part.strip() for part in parts if words(part)]


def is_list(text: str) -> bool:
    """Whether a text holds a bulleted or numbered list, or headings, also when the list is squeezed into one line."""
    return bool(_LIST_LINE.search(text) or _INLINE_LIST.search(text))


def stem(word: str) -> str:
    """A word without its plural ending or possessive, in lower case: enough to find a subject in a sentence."""
    word = re.sub(r"['’]s$", "", word.lower())
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if re.search(r"(?:ch|sh|x|ss|o)es$", word):
        return word[:-2]
    return word[:-1] if re.search(r"[^sui]s$", word) else word


def names(text: str, subject: Subject) -> bool:
    """Whether a text names the subject: all its words, in singular or plural, in any order."""
    said = {stem(word) for word in words(text)}
    return any({stem(word) for word in subject_words(form)} <= said for form in (subject.one, subject.many))


def subject_words(form: str) -> list[str]:
    """The words of a subject that count: without articles and prepositions."""
    return [word for word in words(form) if word.lower() not in {"a", "an", "the", "of", "and", "in"}]
