"""Phrases that judge the reply: approval, complaint, mismatch with what was asked."""

from drivetrain.judge.lexicon.phrase import Phrase

OPINIONS: tuple[Phrase, ...] = (
    Phrase(
        "approval",
        r"thank(?:s| you|ful| u)?|thx|thnx|tysm|ty|cheers|grateful|appreciate(?:d)?|gracias|merci|obliged",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:i )?(?:\w+ )?(?:love|loved|like|liked|enjoy|enjoyed|adore) (?:it|this|that|how|the way|your|the)",
        value=1,
    ),
    Phrase(
        "approval",
        r"yes|yep|yeah|yup|finally|exactly|precisely|absolutely|indeed|wow|progress|at last|improved|"
        r"improvement",
        value=1,
        weak=True,
    ),
    Phrase(
        "approval",
        r"(?!(?:<MILD>)\b)<PRAISE>|^(?:\w+ ){0,2}?(?:fine|clear|right|cool|relevant|the best)$|(?:that|this|"
        r"it|<REPLY_NOUN>|you|all|sounds|looks|reads) (?:is|was|are|were|looks?|sounds?|reads?|feels?|"
        r"seems?)? ?(?:\w+ )?<PRAISE>",
        value=1,
        about=True,
    ),
    Phrase(
        "approval",
        r"agreed|approved|accepted|amen|lgtm",
        value=1,
    ),
    Phrase(
        "complaint",
        r"<NEGATION> (?:(?:a|an|the|at|all|very|so|really|that|too|particularly|much|of|any|quite|exactly|"
        r"even|is|was|be|been|feel|look|sound|read|seem|being|good|as|remotely|especially|entirely|completely|"
        r"<REPLY_NOUN>|it|this|what|i|would|call) ){0,4}?(?:<PRAISE>|satisfy|impressed?|helped|helping|helps|"
        r"help|work|works|working)",
        about=True,
    ),
    Phrase(
        "complaint",
        r"<BLAME>",
        about=True,
    ),
    Phrase(
        "complaint",
        r"(?:too|overly|excessively|way|far|awfully|terribly|insanely|ridiculously|unnecessarily|needlessly|"
        r"painfully|annoyingly) (?:\w+ )?(?:<QUALITY>|<FORM>|\w+y|\w+al|\w+ed|\w+ing)",
        about=True,
    ),
    Phrase(
        "complaint",
        r"(?:so|such|a bit|a little|a tad|kind of|sort of|rather|pretty|quite|somewhat|slightly|very|really|"
        r"still|as) (?:a |an )?(?:long|short|wordy|verbose|much|many|formal|informal|casual|technical|"
        r"complicated|vague|dry|lengthy|dense|stiff|abrupt|curt|blunt|chatty|heavy|flowery|crowded|cold|rude)",
        about=True,
    ),
    Phrase(
        "complaint",
        r"(?:longer|shorter|wordier|more|fewer|less) (?:\w+ ){0,3}?than (?:\w+ ){0,2}?(?:i|necessary|needed|"
        r"one|a|thirty|twenty|ten|that|what)",
    ),
    Phrase(
        "mismatch",
        r"i (?:\w+ )?(?:did|do|had|have|was|am) not (?:\w+ )?(?:ask|asked|want|wanted|need|request|requested|"
        r"like|mean|care|after|asking|looking|enjoy|expect|see|said|say|think|believe|find)",
    ),
    Phrase(
        "mismatch",
        r"i (?:\w+ )?(?:asked|said|meant|told|requested|specified|expected|was (?:\w+ )?(?:asking|looking for|"
        r"hoping for|expecting|after|thinking)|had asked|have asked|had in mind|had hoped for|hoped for|"
        r"mean)(?! to ask| to know)",
    ),
    Phrase(
        "mismatch",
        r"(?:did|have|had) i (?:\w+ )?(?:ask|asked|say|said|mention|mentioned|want|request|requested)",
    ),
    Phrase(
        "mismatch",
        r"i (?:\w+ )?wanted(?! to (?:ask|know|see|check|learn|talk))",
    ),
    Phrase(
        "mismatch",
        r"(?:nobody|no one|who) (?:\w+ )?(?:asked|wants|needs|wanted|reads|said)",
        about=True,
    ),
    Phrase(
        "mismatch",
        r"you (?:\w+ )?(?:are|were|did|do|have|had|can|could|should|would|must|will|need) not(?! disappoint)",
        about=True,
    ),
    Phrase(
        "mismatch",
        r"you (?:\w+ )?(?:forgot|missed|ignored|failed|skipped|left out|omitted|misread|misunderstood|keep|"
        r"kept|never|still|again|only gave|rambled|wandered|drifted|overdid|should have|could have|need to|"
        r"must|have to|should|ought to|are supposed to|were supposed to|overshot|dodged|avoided|refused|"
        r"buried)(?! (?:it|this|that) (?:short|brief|simple|concise))",
        about=True,
    ),
    Phrase(
        "mismatch",
        r"(?:it|that|this|which|there|answer|reply|response|sentence|<REPLY_NOUN>|what you (?:wrote|said|gave "
        r"me)) (?:\w+ )?(?:do|does|did|is|was|are|were|has|have|had|can|could|should|will|would) not(?! it\b)",
        about=True,
    ),
    Phrase(
        "mismatch",
        r"not (?:a|an|the|another|five|three|some|many|several) (?:\w+ ){0,2}?<FORM>",
    ),
    Phrase(
        "mismatch",
        r"(?:instead of|rather than) (?:\w+ ){0,3}?(?:<FORM>|listing|rambling|this|that)",
    ),
    Phrase(
        "mismatch",
        r"(?:wrong|different|other) (?:thing|question|one|topic|subject|language|format|tone|person|place|way)",
    ),
    Phrase(
        "complaint",
        r"(?:another|yet another|more|again|still|always|so many|too many|all those|all these|these|those|"
        r"what is with|enough with|enough of|why (?:\w+ ){0,2}?(?:all|the|a|these|those|another|so|such)|why "
        r"is there|why are there|look at) (?:\w+ ){0,3}?(?:list|lists|bullets?|points?|paragraphs?|words|"
        r"lines|sentences|essay|text|emojis?|headings?|markdown|jargon|exclamation|headers?|tables?|asterisks|"
        r"hashtags|caveats|disclaimers|apologies)",
    ),
    Phrase(
        "complaint",
        r"why (?:did|do|are|were|would|must|can|could|have) you|why (?:so|such|not|all|the)\b|how (?:hard|"
        r"difficult) (?:is|can|could)|how (?:often|many times) (?:do|must|should|have) i|what happened to|"
        r"where (?:is|are|did|was|were) (?:the|my) (?:\w+ ){0,2}?<FORM>|what part of|seriously|honestly|argh|"
        r"grr|sigh|oof",
        about=True,
    ),
    Phrase(
        "complaint",
        r"where (?:is|are|did|was|were) (?:the|my) (?:\w+ ){0,2}?<FORM>",
    ),
    Phrase(
        "complaint",
        r"^(?:close|almost|nearly|sort of|kind of|partly|half right)\b",
        about=True,
    ),
    Phrase(
        "complaint",
        r"^never mind|^forget it|^whatever",
        weak=True,
    ),
    Phrase(
        "complaint",
        r"^(?:hmm |um |uh |oh |well |sorry |wait |ah |eh |err |er |but |and |so )*no$|^no(?= (?:that|it|this|"
        r"i|not|you|the|please|sorry|no|wait|but|again|never|way))|^nope|^nah|^wait no",
    ),
    Phrase(
        "complaint",
        r"(?:do )?you call (?:this|that|it)|one thing at a time",
    ),
)
