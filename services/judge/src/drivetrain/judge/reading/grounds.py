"""A message held against the reply: other figures, a denial of what it says, what was asked for and is not in it."""

import functools
import re
from dataclasses import dataclass

from drivetrain.judge import lexicon
from drivetrain.judge.reading.cues import Cue
from drivetrain.judge.reading.figures import figures
from drivetrain.judge.reading.matching import matches
from drivetrain.judge.reading.subject import content
from drivetrain.judge.text import Clause, bounded, stem, words_of

_VALUE = re.compile(
    r"^(?:but |so |hm+ |well |no |actually )*(?:i (?:\w+ )?(?:get|got|count|counted|make it|have|see|"
    r"measured)|that is|that was|"
    r"it should be|should be|it is actually|(?:(?:my|the|our|a) )?[\w ]{1,30}(?:says?|shows?|gives?)|"
    r"it is(?= \w+$))\b"
)
_VALUE_HAN = re.compile(
    r"(?:我|书|课本|网|百度|老师|计算器|答案|日历|地图|手机|系统|表|说明).{0,8}(?:是|写的?|算|说|得|查到)|(?:应该|明明|其实)是|^(?:是|这是|那是)"
)
_NOT = frozenset({"not", "never", "no", "neither", "cannot"})
_HAN_PLAIN = re.compile(r"[^\u3400-\u9fffa-z0-9]+")
_HAN_INSISTS = re.compile(
    r"^(?:我|都|就|要|说了?|说的|是|请|得|应该|明明|是要|要的是|用|写|给我)+|(?:啊|呀|吧|的|好吗|谢谢|！|!)+$"
)
_DOUBLED = re.compile(r"^(.{2,4})\1+$")
_ASKING = re.compile(
    r"[?？][\s\"”)）]*$|请(?:提供|告诉|说明|补充|给出|描述)|please (?:tell|give|share|provide|send)\b|let me know"
)
_STATES = re.compile(
    r"^(?:\w+ ){1,3}(?:belongs|contains|has|had|comes|costs|closed|died|lives|means|stopped|never|"
    r"always|needs)\b"
)
_OPENS = re.compile(r"^(?:so|if|and|or|then|now|next|wow|cool|nice|great|thanks|ok|okay|i|we)\b")
_REST = re.compile(
    r"^(?:and |so |but )*(?:(?:where|what) (?:is|are|about) |and )?the (?:rest|other \w+|remaining \w+|second half)$"
)
_WHERE_HAN = re.compile(r"^(?:那|可是|但|但是|我的|我要的|还有|说好的)*(.{1,8}?)(?:呢|在哪|去哪了?)(?:[?？!！]*)$")
_WHERE = re.compile(
    r"^(?:and |but )*(?:what about|how about|where is|where are|what happened to|and) (?:the |my |our )?"
    r"(?!what|who|how|why|when|where|which|is|are|do|does)(\w+(?: \w+){0,2})$"
)


@dataclass(frozen=True)
class Grounds:
    """What was asked last and what was replied, with the figures in both."""

    asked: str
    reply: str
    figures_asked: frozenset[str]
    figures_replied: frozenset[str]
    stems: frozenset[str]
    stems_asked: frozenset[str]

    @property
    def asking(self) -> bool:
        """Whether the reply asked for something, so that what a person says answers it."""
        return _ASKING.search(self.reply) is not None

    @classmethod
    def of(cls, asked: str, reply: str) -> "Grounds":
        """Grounds from the last message that was answered, and the answer."""
        asked, reply = bounded(asked, 4000).lower(), bounded(reply, 8000).lower()
        words_asked, words_replied = words_of(asked), words_of(reply)
        return cls(
            asked,
            reply,
            figures(asked, words_asked),
            figures(reply, words_replied),
            frozenset(map(stem, words_replied)),
            frozenset(map(stem, words_asked)),
        )

    def cues(self, clause: Clause) -> list[Cue]:
        """What a clause says against the reply."""
        if not self.reply:
            return []
        if self._lacks(clause):
            return [Cue("mismatch", -1, False, clause, "lacks")]
        if clause.asks:
            return [Cue("doubt", -1, False, clause)] if self._echoes(clause) else []
        if self._other_figure(clause):
            return [Cue("mismatch", -1, False, clause, "figure")]
        if self._insists(clause) or (not clause.han and self._denied(clause)):
            return [Cue("mismatch", -1, False, clause)]
        return [Cue("remark", -1, True, clause)] if not clause.han and self._on_it(clause) else []

    def _echoes(self, clause: Clause) -> bool:
        """A few words of the reply, with a question mark."""
        said = _HAN_PLAIN.sub("", clause.raw.lower())
        if clause.han:
            return 2 <= len(said) <= 6 and said in self.reply
        opens = lexicon.OPENERS | lexicon.AUXILIARIES | lexicon.INTERROGATIVES | {"the", "a", "how"}
        about = content(clause.text) | (figures(clause.raw.lower()) & self.figures_replied)
        known = self.stems | self.stems_asked | self.figures_replied
        return clause.words[0] not in opens and len(clause.words) <= 7 and bool(about & known) and about <= known

    def _insists(self, clause: Clause) -> bool:
        """A few words of what was asked, that are not in the reply."""
        if clause.han:
            said = _DOUBLED.sub(r"\1", _HAN_PLAIN.sub("", _HAN_INSISTS.sub("", clause.raw.lower())))
            return 2 <= len(said) <= 8 and said in self.asked and said not in self.reply
        stems = set(map(stem, clause.words))
        telling = stems - _telling_nothing()
        return len(clause.words) <= 3 and bool(telling) and stems <= self.stems_asked and not telling & self.stems

    def _on_it(self, clause: Clause) -> bool:
        """A statement about something that the reply names."""
        about = content(clause.text)
        states = bool(lexicon.AUXILIARIES & set(clause.words[1:5])) or bool(_STATES.match(clause.text))
        return (
            states
            and 3 <= len(clause.words) <= 14
            and bool(about & (self.stems - self.stems_asked))
            and not _OPENS.match(clause.text)
        )

    def _other_figure(self, clause: Clause) -> bool:
        """A figure that was asked for and is not in the reply, or one given as right in place of the reply's."""
        said = figures(clause.raw.lower())
        if len(said) == 0 or len(clause.words) > 12:
            return False
        if said & (self.figures_asked - self.figures_replied):
            return len(clause.words) <= 6
        if (
            said
            and self.figures_replied
            and not said & self.figures_replied
            and len(clause.words) <= 2
            and not clause.han
        ):
            return True
        parts = {"am", "pm"}
        if len(said & parts) == 1 and self.figures_replied & parts and not said & parts & self.figures_replied:
            return True
        form = _VALUE_HAN if clause.han else _VALUE
        known = self.figures_replied | self.figures_asked
        return (
            bool(known)
            and not said & known
            and form.search(clause.raw.lower() if clause.han else clause.text) is not None
        )

    def _denied(self, clause: Clause) -> bool:
        """A statement with "not" of what the reply speaks of, in no other words than were used before."""
        about = content(clause.text)
        if not _NOT & set(clause.words) or clause.words[0] in {"so", "if", "i", "we", "no"} or len(clause.words) > 14:
            return False
        return (
            bool(about & self.stems)
            and about <= self.stems | self.stems_asked
            and not matches(lexicon.OWN_STORY, clause.text)
        )

    def _lacks(self, clause: Clause) -> bool:
        """A question for what was asked for and is not in the reply."""
        if clause.han:
            named = _WHERE_HAN.match(clause.raw.strip().lower())
            return named is not None and named[1] in self.asked and named[1] not in self.reply
        if clause.asks and _REST.match(clause.text):
            return True
        found = _WHERE.match(clause.text) if clause.asks else None
        wanted = content(found[1]) if found else frozenset()
        return bool(wanted) and wanted <= self.stems_asked and not wanted & self.stems


@functools.cache
def _telling_nothing() -> frozenset[str]:
    return frozenset(map(stem, (lexicon.FUNCTION | lexicon.PRAISE | lexicon.OPENERS) - lexicon.COUNT))
