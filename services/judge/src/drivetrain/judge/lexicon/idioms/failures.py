"""Idioms of what is wrong with the reply in use: it made things worse, does not fit, misses what was asked."""

from drivetrain.judge.lexicon.phrase import Phrase

FAILURES: tuple[Phrase, ...] = (
    Phrase(
        "complaint",
        r"^(?:so |just )?yes or no$|would have (?:done|sufficed|been enough)|there (?:must|has to|"
        r"should) be (?:an?|some) \w+|(?:everybody|everyone|"
        r"anybody|anyone) (?:knows|could have|can)\b|^be serious$|^(?:that is )?hardly an? \w+$",
    ),
    Phrase(
        "instruction",
        r"(?:less|more|better|easier|simpler|faster|nicer|shorter|cleaner) (?:\w+ )?(?:way|one|option|"
        r"version|word|name)$",
    ),
    Phrase(
        "complaint",
        r"(?:nobody|no one|none of us|who)(?: \w+){0,4} (?:talks?|speaks?|writes?|says?|uses?|calls?|does|"
        r"eats?|wears?|thinks?)"
        r"(?: \w+)? (?:like )?(?:that|this|it|so)\b|(?:made|makes|making) (?:it|things|everything|that|"
        r"this|matters) (?:\w+ )?worse|"
        r"(?:it |that |this |he |she )?(?:did|does|has|had|changed|fixed|solved|helped) nothing|(?:has|"
        r"had|made|with) no (?:effect|difference)|"
        r"nothing (?:changed|happens|happened|works|helps)|(?:same|identical) (?:error|problem|issue|"
        r"result|mistake|message|thing|answer|bug)"
        r"(?! as (?:you|mine))|still (?:the same|broken|failing|fails|crashes|crashing|wrong|errors?|not|"
        r"no|does not|is not|can not|"
        r"did not|gives|getting|get|shows|says|stuck|slow|red|empty|nothing|missing|too)\b|(?:already|"
        r"have|had) (?:\w+ )?(?:tried|done|did) "
        r"(?:that|this|all|it|both|those|everything)|(?:tried|did) (?:that|this|it|all of (?:it|"
        r"that)) (?:already|before|twice|yesterday)",
    ),
    Phrase(
        "complaint",
        r"(?:you|it|that) (?:\w+ )?(?:made (?:that|it|this|them) up|invented|hallucinated|broke|destroyed|"
        r"deleted|overwrote|lost|ruined)|"
        r"(?:does|do|did) not (?:even )?exist|there is no such|(?:links?|page|url|site) (?:is|"
        r"are) (?:dead|broken|gone|down)|"
        r"(?:is|are|was|were) (?:\w+ )?(?:outdated|out of date|deprecated|obsolete|made up|fabricated|"
        r"backwards|upside down|the wrong way "
        r"(?:round|around))|(?:it |that |this |code )(?:\w+ )?(?:crash(?:es|ed)|throws?|hangs?|breaks|"
        r"broke|fails|failed|explodes|freezes)\b",
    ),
    Phrase(
        "complaint",
        r"^(?:and |but |so )?(?:(?:where|what) (?:is|are|about|happened to) )?the (?:rest|other (?:half|"
        r"two|three|ones?)|missing \w+)$|"
        r"^(?:and |but )?(?:you )?(?:stopped|cut off|broke off|ended) (?:\w+ )?(?:half ?way|mid\w*|"
        r"too early|in the middle)|"
        r"\b(?:is|was|got) (?:cut off|cut short|truncated|unfinished|half finished)",
    ),
    Phrase(
        "complaint",
        r"^(?:and |but |great |so )?now (?:the|my|it|its|everything|all (?:of )?(?:the|my|it)|i|we|"
        r"nothing|half)(?: \w+){0,3}? (?:is|are|has|have|"
        r"does|do|will|can|keeps?|says|gives|shows|smells|cannot|won t|got)\b(?!.* (?:works?|fits?|fine|"
        r"good|clear|clearer|gone|perfect|"
        r"working|better|right|great|green|fixed|solved|sense|clean|happy|know|understand|see|get it|"
        r"wonder|curious|hungry)\b)",
    ),
    Phrase(
        "complaint",
        r"^(?:it |that |this )?(?:does|did|is|was|are|were|will|would|has) not (?!that|it|this|the|he|she|"
        r"they|you|i|we|to\b)\w+(?: \w+){0,3}$|"
        r"^(?:way|far|well|much|miles) "
        r"(?:over|above|beyond|under|below|off|out of|past)\b|^(?:it |that |this )?(?:sounds?|reads?|"
        r"feels?|comes (?:across|off)) "
        r"(?:like |as |a bit |a little |very |so |too |kinda |kind of |rather |pretty |"
        r"really )*(?!<PRAISE>\b|right\b|like\b|and\b|but\b|"
        r"a plan|fun|tasty|familiar|promising|interesting)\w+(?: \w+)?$",
    ),
    Phrase(
        "instruction",
        r"(?:anything|something|one|ones|nothing|somewhere|a version|an option) (?:less|more|"
        r"<COMPARATIVE>|that is (?:less|more|not)|without|"
        r"not so|not as) ?\w*|(?:explain|describe|say|put|tell)(?: \w+){0,2}? like (?:i am|i were|"
        r"to) (?:a |an )?\w+|^(?!(?:and|now|next|"
        r"more|another|also|two|three|one|some|yes|yeah|ok|thanks|thank|a|an|the|few|"
        r"any)\b)(?:\w+ ){1,4}please$|^(?:take|leave|cut|strike) "
        r"out (?:the|that|your|all|any)\b|^(?:not|no) (?:\w+ ){1,2}please$|"
        r"^something (?!else)\w+ (?:then |instead )?(?:please|instead)$",
    ),
    Phrase(
        "complaint",
        r"^\w+ much$|i would (?:not|never) (?:\w+ ){0,2}?(?:click|buy|read|say|use|trust|eat|wear|hire|"
        r"send|want|go|pay|call|put|do)\b",
    ),
    Phrase(
        "complaint",
        r"^(?:it |that |this )?(?:needs|lacks|misses|ignores|rejects|returns|gives|throws|shows|prints|"
        r"outputs|breaks|skips|repeats|"
        r"contradicts|assumes|requires|leaves|belongs|only \w+s) \w+|^(?:he|she|they|people|nobody|"
        r"everyone) (?:will|would) (?:bin|laugh|hate|"
        r"reject|ignore|sack|fire|never|delete|skip|not)\b|^(?:but |sorry |well )?(?:i|we|he|she|they|"
        r"my \w+) (?:do not|does not|can not|"
        r"never|am not|is not|are not) (?!know|think|mind|care|have time|worry|remember|understand|get|"
        r"want to|need to)\w+|^(?:i |we )?"
        r"(?:already )?(?:got|have|had|own|bought|gave|saw|read|seen|did|tried|know|knew|heard|"
        r"ate)(?: \w+){0,3} (?:already|last \w+|before|"
        r"years? ago|yesterday|twice)$",
        weak=True,
    ),
    Phrase(
        "instruction",
        r"^(?:please |just |can you |could you )*(?:make|let|have) (?:me|it|us|them|him|her) (?:sound|"
        r"look|seem|read|feel|appear)\b",
    ),
    Phrase(
        "doubt",
        r"^(?:\w+ )?(?:is|was|are|were) not (?:it|he|she|they) (?:the |in |on |at |called |spelled )?\w+$|"
        r"^(?:\w+ )?(?:is|was|are|were|"
        r"should) not (?:it|that|this|he|she|they) (?:be )?(?:about|for|in|from|called|an?|the|on|at|"
        r"spelled|named|supposed|more|closer)\b",
        asks=True,
    ),
    Phrase(
        "complaint",
        r"^(?:\w+ )?(?:the )?wrong \w+(?: again)?$|^still \w+(?: \w+)?$|all (?:the same|alike|identical)$|"
        r"^(?!of course|yes|yeah|ok)"
        r"(?:\w+ ){1,6}(?:obviously|surely|duh)$|^(?:only|just) (?!(?:\w+ ){1,2}<FORM>)(?:half|one|two|"
        r"three|four|five|part|"
        r"the \w+)(?: \w+){0,2}$|"
        r"^(?:one|two|three|\d+) (?:short|missing|too many|too few|extra)$",
    ),
    Phrase(
        "retraction",
        r"(?:my (?:bad|mistake|fault|error)|i (?:misread|misunderstood|was wrong|stand corrected|"
        r"see it now)|ignore (?:that|me|my last)|"
        r"scratch that|sorry my)\b(?! (?:question|english))",
        value=0,
    ),
)
