"""Idioms of objection."""

from drivetrain.judge.lexicon.phrase import Phrase

BLAME_IDIOMS: tuple[Phrase, ...] = (
    Phrase(
        "mismatch",
        r"(?:not|never|hardly|nowhere near|far from) (?:\w+ ){0,3}?(?:what|how|the \w+|as|the way|something|"
        r"anything) (?:that )?i (?:\w+ )??(?:asked|wanted|meant|need|needed|like|want|said|requested|prefer|"
        r"expected|had|was|am|hoped|would)(?: \w+){0,3}",
    ),
    Phrase(
        "complaint",
        r"(?:do|did|does|can|could) not (?:\w+ )?(?:understand|get it|get this|get that|follow|make sense)(?: "
        r"\w+)?",
    ),
    Phrase(
        "complaint",
        r"(?:could|can|should|must|might|may) (?:\w+ )?(?:do|be|have been|have done) (?:\w+ )?better",
    ),
    Phrase(
        "complaint",
        r"(?:would|will|could|should|might) (?:\w+ )?(?:be|have been|prefer|look|read|sound|work|do) (?:\w+ "
        r")?(?:<PRAISE>|preferable|<COMPARATIVE>)",
    ),
    Phrase(
        "complaint",
        r"do (?:\w+ )?better|(?:room for|needs?|wants?) improvement|better luck|good (?:grief|lord|god)|(?:a "
        r")?bit much|come on|for (?:goodness|heaven|gods|god|pete) s? ?sake|what a (?:mess|shame|pity|waste)|"
        r"tl ?dr|tldr|too long did not read|waste of (?:time|words|space)|in circles|beside the point|(?:miss|"
        r"misses|missed|missing) the (?:point|mark)|off (?:the mark|topic|track|base|target)|wide of the mark|"
        r"not (?:\w+ )?there yet|not (?:quite|really|exactly|so much)\b|over the top|all over the place|"
        r"(?:drives?|driving) me|lost me|(?:went|go|going|goes|drones?|droned|droning|ramble\w*) on(?: and "
        r"on)?|hard to (?:read|follow|understand|parse)|difficult to (?:read|follow|understand)|more than i "
        r"(?:asked|wanted|needed)(?: for)?|a (?:shame|pity)|no good|no use|no help|thumbs down|wrong (?:again|"
        r"still)",
    ),
    Phrase(
        "approval",
        r"better than (?:before|the last \w*|i \w+|expected|last time|ever)|(?:much|far|way|so much|a lot) "
        r"better(?! if| as| with| in| to)\b|better(?= thanks| thank)",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:glad|happy|pleased|delighted) (?:to|that|with|you|about)(?: \w+)*",
        value=1,
    ),
)
