"""Idioms of approval."""

from drivetrain.judge.lexicon.phrase import Phrase

PRAISE_IDIOMS: tuple[Phrase, ...] = (
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
)
