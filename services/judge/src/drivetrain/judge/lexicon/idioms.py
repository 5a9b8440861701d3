"""Phrases read first, in order: what one matches is taken out of the clause, so "no complaints" is never "no"."""

from drivetrain.judge.lexicon.phrase import Phrase

IDIOMS: tuple[Phrase, ...] = (
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
        r"point|direct|readable))(?! than (?:i|a|one|what))(?! (?:but|if|with|when|as))",
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
    Phrase(
        "approval",
        r"(?:many |big |huge |a million |warm |ok |with )?(?:thanks|thank you|thank u|thankyou|thx|tysm|"
        r"cheers|ta)(?: you)?(?: (?:so|very|ever so) much| a lot| a bunch| a ton| a million| loads| heaps| "
        r"again| indeed| kindly| both| mate| all the same| anyway| for (?:that|this|it|trying|the effort|your "
        r"help))?",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:can|could) not (?:be|have been|ask for|have asked for|have put it|have said it|wish for|get) "
        r"(?:any )?(?:better|happier|clearer|more|nicer)(?: \w+)?",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:can|could) not (?:ask|have asked|wish) for (?:a |any )?(?:better|more|nicer|clearer)(?: \w+)?|"
        r"this is the way|(?:this|that) is (?:\w+ )?how (?:\w+ ){1,4}?(?:should be|is done|to do it)|that is "
        r"the spirit|right on$|^(?:so |that is )?(?:much|far|way|a lot) (?:clearer|nicer|neater|tidier|"
        r"cleaner|crisper|easier|kinder)$|(?:can|could) not thank you enough|(?:can|could) not (?:fault|"
        r"complain|agree more)",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:no|zero|without|nothing to) (?:notes?|complaints?|complain|objections?|issues?|fault|faults|"
        r"changes? (?:needed|required)|criticisms?|improve|fix|change)",
        value=1,
    ),
    Phrase(
        "approval",
        r"no (?:need to|reason to) (?:change|fix|add|improve)(?: \w+)?",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:no|not a) (?:problem|problems|worries|bother)\b",
        value=1,
        weak=True,
    ),
    Phrase(
        "approval",
        r"(?:not|nothing|never) (?:at all )?(?:wrong|bad|badly|shabby|disappointed|disappointing|unhappy|"
        r"disappoints?)\b",
        value=1,
        weak=True,
    ),
    Phrase(
        "approval",
        r"(?:do|does|did|never) not (?:disappoint|miss a thing|change (?:a|one) thing|change anything)",
        value=1,
    ),
    Phrase(
        "approval",
        r"keep (?:it|this|that|them|going|doing|on|up|writing|answering|replying|responding|your|the)(?: "
        r"\w+){0,3}? (?:up|like (?:this|that)|this way|that way|doing (?:this|that)|exactly (?:like|as))\b(?: "
        r"\w+)?",
        value=1,
    ),
    Phrase(
        "approval",
        r"keep (?:it|this|that) up|keep (?:doing|going with) (?:it|this|that|exactly)(?: \w+)?|keep up the "
        r"\w+ \w+",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:stick|carry on|continue|stay) (?:with|like) (?:this|that)\b(?: \w+)?",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:more|always|answers|replies) (?:of this|of that|like this|like that)\b",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:that|this|it|which|there|now that|finally|here) (?:is|was) (?:\w+ ){0,2}?(?<!not )(?:what|how|"
        r"all|(?:the|a)(?: \w+){1,4}?) (?:that )?i (?:\w+ )??(?:wanted|needed|asked|meant|like|love|want|need|"
        r"prefer|expected|hoped|had|was)(?: \w+){0,4}",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:exactly|just|precisely|really|very much) (?:what|how|(?:the|a)(?: \w+){1,4}?|as) i (?:\w+ "
        r")??(?:wanted|needed|asked|meant|like|love|want|need|prefer|expected|hoped|had|was|requested|"
        r"said)(?: \w+){0,3}",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:as|like|the way) i (?:asked|wanted|like|requested|hoped|said|prefer)(?: it| them)?",
        value=1,
        weak=True,
    ),
    Phrase(
        "approval",
        r"(?:short|nice|clear|brief|simple|crisp) and (?:sweet|clear|short|simple|to the point|crisp|easy|"
        r"tidy|clean|precise)",
        value=1,
    ),
    Phrase(
        "approval",
        r"you (?:\w+ )?(?:nailed|got|aced|rock|rule|hit) ?(?:it|this|that|the nail)?(?: right)?\b",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:hits?|on) the (?:spot|mark|nail|money)|spot on|bang on|dead on|on point|to the point|bull ?s "
        r"?eye|bingo|top notch|first rate|well (?:done|put|said|written|explained|phrased|answered)|(?:good|"
        r"great|nice|fine|lovely|excellent|top) (?:job|work|one|stuff|answer|reply|going|response|sentence)|"
        r"way to go|thumbs up|two thumbs up|hear hear|much obliged|bravo|kudos|hooray|hurray|yay|woohoo|props",
        value=1,
    ),
    Phrase(
        "approval",
        r"that (?:will|would) (?:do|work)(?: nicely| fine| for me| perfectly)?|(?:that|this|it) (?:works|"
        r"helps|helped|worked|does it|did it|did the (?:job|trick)|does the (?:job|trick)|clears? (?:it|that|"
        r"things) up|cleared (?:it|that|things) up|makes (?:\w+ )?sense|reads (?:\w+ )?well|suits me|answers "
        r"(?:my|the) question|answered (?:my|the) question|settles it|is it|is the one|is more like it)(?: "
        r"\w+)?",
        value=1,
    ),
    Phrase(
        "approval",
        r"got it|makes sense|good to know|fair enough|i (?:see|understand|get it) now|now i (?:see|get it|"
        r"understand)|understood|problem solved|you are (?:a )?(?:the best|the man|legend|star|lifesaver|gem|"
        r"genius)|made my day|i owe you|all (?:clear|good|set)",
        value=1,
    ),
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
