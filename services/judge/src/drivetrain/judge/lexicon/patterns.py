"""Patterns that tell what a clause is about; `<CLASS>` stands for any word of that class, or another pattern."""

NEGATION = r"(?:not|never|hardly|barely|no|cannot|neither|nothing|far from|anything but|less than)"
"""Turns praise into blame."""

REPLY = r"(?:it|that|this|these|those|them|(?:your|the|this|that) (?:\w+ )?<REPLY_NOUN>|<REPLY_NOUN>)"
"""The reply as a subject."""

LATER = (
    r"(?:next time|from now on|in (?:the )?future|going forward|henceforth|in your next|for next time|the "
    r"next time)"
)
"""Points at the replies to come."""

ASK = (
    r"(?:(?:but|and|so|now|ok|okay|well|please|kindly|just|then|hey|look|can you|could you|would you|will "
    r"you|can we|could we|you should|you could|i need you to|i want you to|i would like you to|how about "
    r"you|mind|try to|let us|at least|maybe|try and|make sure to|be sure to|remember to|would you mind|do "
    r"you mind|next time|go and|go) )*"
)
"""What may precede an imperative."""

OWN_STORY = (
    r"^(?:(?:and|so|but|well|ok|okay|hi|hello|actually) )*(?:i (?:have|had|got|feel|felt|live|work|bought|"
    r"study|caught|read that|heard|saw) (?:a|an|the|in|at|that|this|my|like)|my(?! (?:question|request|"
    r"preference|rule))|we|he|she|they|people|someone|somebody)"
)
"""Opens a clause about the speaker's own affairs."""

ASKS_THE_ASSISTANT = (
    r"^(?:\w+ )?(?:i|we) (?:always )?thought (?:it|that|this|he|she|they|you|the)\b|^(?:can|could|"
    r"will|would) you (?:please |just )?(?:not|stop|avoid|quit|leave out|skip|at least|"
    r"ever)\b|^(?:\w+ )?(?:(?:why|how|what|where) (?:\w+ )?)?(?:did|do|are|were|have|must|should|is|was|"
    r"can not|could not) (?:you (?:\w+ )?|i (?:\w+ )?(?=ask|say|said|mention|repeat))(?:not|keep|ignor\w+|"
    r"forget|forgot\w*|writ\w+|answer\w*|listen\w*|always|ever|even|stop|ask|asked|say|said|giv\w+|add\w*|"
    r"includ\w+|mention\w*|us\w+|nam\w+|skip\w*|leav\w+|repeat\w*|ramb\w+|talk\w*)\b(?! (?:me|if|how|why|"
    r"what))"
)
"""Opens a question about what the assistant did."""

REMARK = (
    r"^(?:(?:but|and|so|well|now|sorry|all|what|the) )?(?:you|that|this|it|your \w+|these|those|(?:the|"
    r"that|this) <REPLY_NOUN>) (?!mentioned|said|told|reminds?|brings?)\w+|^i (?:\w+ )?(?:get|got|lose|"
    r"lost|am lost|skipped|stopped|gave up|give up|struggle\w*|fell|find|found|had to)\b|\b(?:all|so "
    r"much) (?:that|this) <FORM>"
)
"""A statement about the reply: an objection unless something else tells."""

POINTS_BACK = (
    r"asked|wants|wanted|needs|said|you|your|i|my|that|this|it|the|these|those|so|such|all|not|about|"
    r"again|even"
)
"""What a question about the reply contains."""

PRODUCT = (
    r"(?:a|an|some|another|any) (name|names|title|poem|letter|haiku|verse|essay|story|stories|example|"
    r"examples|table|code|snippet|list|email|speech) (?:for|of|about|to|on)"
)
"""A new piece of work that happens to be named by a word of form."""

ABOUT_THE_REPLY = (
    r"^(?:\w+ ){0,2}?<REPLY>|<REPLY_NOUN>|(?:read|understand|use|follow|parse|digest) (?:that|this|it|all)"
)
"""Makes a statement one about the reply, whatever else it names."""

MANNER = (
    r"mention|include|name|naming|contain|start|begin|end|finish|use the (?:word|name|term)"
    r"|(?:your|the) (?:answer|reply)"
)
"""Makes a sentence that names the subject once more an instruction, not the question again."""

STATEMENT = (
    r"^(?:and |but |so )?(?:that|this|it|these|those|you|your \w+|there) (?:is|are|was|were|has|have|gave|\w+ed)"
)
"""Says what the reply is, so it tells nobody what to do."""

OF_THE_WORLD = (
    r"^(?:and |so |but )?how (?!hard|difficult|often|many times)\w+ (?:should|do|does|did|is|are|can|"
    r"would|will|may)\b|"
    r"^(?:\w+ )?(?:english|spanish|french|german|italian|chinese|japanese|language|life|people|nature) "
    r"(?:is|are|was|can)\b"
)
"""Opens a question or a statement about the world that could be one about form."""

MOVES_ON = (
    r"^(?:and |ok |okay |great |good |thanks |so )*(?:now|next|then|also|after that)(?: (?:please|"
    r"can you|could you|would you))? "
    r"(?!(?:it|that|this|the|my|your|you|i|we|they|he|she|is|are|was|make it|keep it)\b)\w+"
)
"""Opens a request for something else ("now add a login page")."""

DENIAL = (
    r"^(?!(?:i|we) (?:read|heard|saw|learned|learnt) |(?:i|we) (?:do not|did not|can not|could not|"
    r"would not|will not|am not|are not) (?:know|"
    r"mind|care|think|remember|want to|sure|ready|"
    r"even know|really know|worry)|no (?:problem|worries|idea|rush|hurry|thanks|need|matter|one)|"
    r"not (?:yet|sure|now|really)|if|so|because|when|"
    r"why|never mind|do not worry|nothing)(?=.*\b(?:not|(?:have|has|had) no|never|without|hardly|no longer|neither|"
    r"nobody)\b)(?:\w+ ){2,13}\w+$"
)
"""A statement that denies something."""
