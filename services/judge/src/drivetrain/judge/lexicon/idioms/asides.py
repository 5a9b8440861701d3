"""Idioms that would be misread by their words: changes of subject, compliments with a sting, thanks for nothing."""

from drivetrain.judge.lexicon.phrase import Phrase

ASIDES: tuple[Phrase, ...] = (
    Phrase(
        "neutral",
        r"(?:next|another|one more|new|quick|different|follow up|last|final|second|first|other) (?:question|"
        r"topic|subject|thing)(?: then| now| please)?$|(?:change|changing) (?:of )?(?:topic|subject)|moving "
        r"on|by the way|thanks in advance|thank you in advance|on (?:to )?another (?:note|topic|subject)",
        value=0,
    ),
    Phrase(
        "complaint",
        r"(?:nice|good|fair|decent) (?:try|effort|attempt|start)|(?:the )?opposite of (?:\w+ ){1,4}?(?:asked|"
        r"wanted|meant|need|needed|said)(?: for)?|(?:^|so )(?:what|sorry|excuse me|how so|who|where|say what|"
        r"what now)$(?<!so what)",
    ),
    Phrase(
        "approval",
        r"(?:that|this|it|now that|which|<REPLY_NOUN>) (?:is|was|reads|looks|sounds|feels) (?:\w+ )?(?:so |"
        r"much |a lot |way |far |already )*(?:more <PRAISE>|<COMPARATIVE>|more (?:like it|concise|to the "
        r"point|direct|readable))(?! than (?!before|last|ever|the (?:last|first|previous|other|"
        r"old)))(?! (?:but|if|with|when|as))",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:keep|leave|make|hold|always be|stay) (?:\w+ )?(?:this|that|as|just as|so) (?:<QUALITY>|"
        r"<PRAISE>)(?! as possible| as you)",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:no|without|not a|one|just one|only one|fewer|a) (?:\w+ ){0,2}?<FORM> (?:this time|at last|"
        r"finally|for once)|(?:this time|for once) (?:no|without|one|a)(?: \w+){0,2}|now (?:we|you) are "
        r"(?:talking|getting (?:it|somewhere))|you can do it|crystal clear|thank god|(?:easy|pleasant|nice|"
        r"good|quick|lovely) to (?:read|follow|understand|have|hear|know)|^super$|^top$|^sweet$|^bravo$|"
        r"^cool$|^nice$|^deal$|^gold$|^respect$",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:keep|like|love|liked|loved) (?:using |with |to )?(?:this|that|the|your) (?:new |same |current "
        r")?(?:style|format|length|tone|way|approach|level|voice|wording|structure|layout|pattern|kind|sort|"
        r"shape|size)|read my mind|a (?:keeper|winner|treat|joy|delight|relief|pleasure|gem|masterpiece|"
        r"beauty)|(?:works|fine|good|great|ok|okay|perfect|enough) (?:for|by|with) me|(?:five|5) stars?|^a "
        r"?(?:plus)?$|10 10|ten out of ten|full marks|chef s kiss|no (?:further|more|other) questions|hats "
        r"off|(?:that|this|it) (?:made|makes) my day|i (?:am|feel) (?:\w+ )?(?:impressed|grateful|thankful|in "
        r"love|a fan)",
        value=1,
    ),
    Phrase(
        "complaint",
        r"(?:have|had|has) (?:\w+ )?(?:seen|read|heard|had|got|gotten) (?:\w+ )?(?:better|worse|clearer|"
        r"shorter)|tmi|(?:do|did|does) not have (?:\w+ ){0,2}?(?:time|patience|energy|hours?|day)|no (?:time|"
        r"patience) (?:for|to)|(?:makes?|made|making|gives?|gave|giving) (?:me |my )(?:\w+ )?(?:head|eyes?|"
        r"brain|headache|dizzy|tired|angry|sleepy|yawn|cringe|mad)(?: \w+)?|my (?:eyes?|head|brain|attention) "
        r"(?!is full)\w+|(?:fell|fall|falling|put me|puts me|sent me|sends me) (?:\w+ )?(?:asleep|sleep)|yawn|"
        r"snore|zz+|would it (?:kill|hurt)(?: you)?|is (?:it|that) (?:that|so|too|really so|really that) "
        r"(?:hard|difficult|much)|(?:are|is) (?:that|this|those|these|they|you) (?:\w+ )?(?:correct|right|"
        r"true|accurate|real|certain|for real)$|pay (?:\w+ )?attention|(?:at|by) (?:all|any rate) useful|what "
        r"is the point|who cares|so what$|big deal|how is (?:that|this)|need i say|(?:lost|losing) (?:my "
        r")?(?:patience|interest)|had enough|give me a break|(?:no|without) (?:\w+ )?point",
    ),
    Phrase(
        "complaint",
        r"(?:makes?|made|making) (?:no|little|zero|not much|hardly any) sense",
    ),
    Phrase(
        "complaint",
        r"what (?:ever )?happened to (?:the |my |a |one |your )*(?:\w+ ){0,2}?<FORM>",
    ),
    Phrase(
        "complaint",
        r"^(?:please |just |can you |could you |ok |but |so )*(?:get|come|cut|stick) (?:straight |right )?to "
        r"the (?:point|chase)",
    ),
    Phrase(
        "complaint",
        r"(?:that|this|it) is not (?:\w+ )?(?:it|right|so|the one)$|(?:do|did|does) not (?:\w+ )?(?:work|help|"
        r"do it|cut it)",
    ),
    Phrase(
        "complaint",
        r"thank(?:s| you) for (?:nothing|that (?:wall|essay|novel|lecture))",
    ),
    Phrase(
        "complaint",
        r"(?:no|not) (?:thanks|thank you)\b",
    ),
)
