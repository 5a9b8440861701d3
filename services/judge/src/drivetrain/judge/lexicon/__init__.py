"""How people react to a reply, as data: in English word classes and the phrases built from them, in `chinese` others.

In a pattern, `<CLASS>` stands for any word of that class. Nothing here is a whole sentence: a phrase names a way of
speaking ("not" + praise, "too" + quality), so that wordings nobody listed are read as well. `reading` is its reader.
"""

from drivetrain.judge.lexicon.grammar import (
    AUXILIARIES,
    CONTRASTS,
    FUNCTION,
    INTERROGATIVES,
    OPENERS,
    PREFERENCE_STEM,
    SPECIFIC,
    SUBORDINATORS,
    TAGS,
    UNTOUCHED,
)
from drivetrain.judge.lexicon.idioms import IDIOMS
from drivetrain.judge.lexicon.opinions import OPINIONS
from drivetrain.judge.lexicon.patterns import (
    ABOUT_THE_REPLY,
    ASK,
    ASKS_THE_ASSISTANT,
    DENIAL,
    LATER,
    MANNER,
    MOVES_ON,
    NEGATION,
    OF_THE_WORLD,
    OWN_STORY,
    POINTS_BACK,
    PRODUCT,
    REMARK,
    REPLY,
    STATEMENT,
)
from drivetrain.judge.lexicon.phrase import Kind, Phrase
from drivetrain.judge.lexicon.retries import RETRIES
from drivetrain.judge.lexicon.wishes import WISHES
from drivetrain.judge.lexicon.words import (
    ASKING,
    BLAME,
    COMPARATIVE,
    COUNT,
    EMOJI,
    FORM,
    FORM_VERB,
    MILD,
    PRAISE,
    QUALITY,
    REPLY_NOUN,
)

PHRASES: tuple[Phrase, ...] = (*OPINIONS, *RETRIES, *WISHES)

__all__ = [
    "ABOUT_THE_REPLY",
    "ASK",
    "ASKING",
    "ASKS_THE_ASSISTANT",
    "AUXILIARIES",
    "BLAME",
    "COMPARATIVE",
    "CONTRASTS",
    "COUNT",
    "DENIAL",
    "EMOJI",
    "FORM",
    "FORM_VERB",
    "FUNCTION",
    "IDIOMS",
    "INTERROGATIVES",
    "LATER",
    "MANNER",
    "MILD",
    "MOVES_ON",
    "NEGATION",
    "OF_THE_WORLD",
    "OPENERS",
    "OPINIONS",
    "OWN_STORY",
    "PHRASES",
    "POINTS_BACK",
    "PRAISE",
    "PREFERENCE_STEM",
    "PRODUCT",
    "QUALITY",
    "REMARK",
    "REPLY",
    "REPLY_NOUN",
    "RETRIES",
    "SPECIFIC",
    "STATEMENT",
    "SUBORDINATORS",
    "TAGS",
    "UNTOUCHED",
    "WISHES",
    "Kind",
    "Phrase",
]
