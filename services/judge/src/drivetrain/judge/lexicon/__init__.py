"""How English speakers react to a reply, as data: word classes and the phrases built from them.

In a pattern, `<CLASS>` stands for any word of that class. Nothing here is a whole sentence: a phrase names a way of
speaking ("not" + praise, "too" + quality), so that wordings nobody listed are read as well. `reading` is its reader.
"""

from drivetrain.judge.lexicon.idioms import IDIOMS
from drivetrain.judge.lexicon.opinions import OPINIONS
from drivetrain.judge.lexicon.patterns import (
    ABOUT_THE_REPLY,
    ASK,
    ASKS_THE_ASSISTANT,
    LATER,
    MANNER,
    NEGATION,
    OWN_STORY,
    POINTS_BACK,
    PRODUCT,
    REMARK,
    REPLY,
    STATEMENT,
)
from drivetrain.judge.lexicon.phrase import Kind, Phrase
from drivetrain.judge.lexicon.wishes import WISHES
from drivetrain.judge.lexicon.words import (
    ASKING,
    AUXILIARIES,
    BLAME,
    COMPARATIVE,
    CONTRASTS,
    COUNT,
    EMOJI,
    FORM,
    FORM_VERB,
    FUNCTION,
    INTERROGATIVES,
    MILD,
    OPENERS,
    PRAISE,
    PREFERENCE_STEM,
    QUALITY,
    REPLY_NOUN,
    SPECIFIC,
    SUBORDINATORS,
    UNTOUCHED,
)

PHRASES: tuple[Phrase, ...] = (*OPINIONS, *WISHES)

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
    "EMOJI",
    "FORM",
    "FORM_VERB",
    "FUNCTION",
    "IDIOMS",
    "INTERROGATIVES",
    "LATER",
    "MANNER",
    "MILD",
    "NEGATION",
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
    "SPECIFIC",
    "STATEMENT",
    "SUBORDINATORS",
    "UNTOUCHED",
    "WISHES",
    "Kind",
    "Phrase",
]
