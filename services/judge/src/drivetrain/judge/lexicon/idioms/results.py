"""Idioms of what came of the reply: it was put to use, it worked, it is liked."""

from drivetrain.judge.lexicon.phrase import Phrase

_USE = (
    r"(?:sending|posting|using|printing|buying|booking|ordering|submitting|saving|taking|keeping|"
    r"stealing|copying|framing|"
    r"publishing|shipping|merging|pushing|trying|sharing|forwarding|hanging|pinning|noting|writing|"
    r"putting|adding|bookmarking)"
)
_IT = r"(?:it|this|that|them|one|these)"

RESULTS: tuple[Phrase, ...] = (
    Phrase(
        "approval",
        r"^(?:i )?knew it$|happy tears|tears? of joy|(?:teared|welled) up|in tears|oh thank (?:god|goodness)",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:^|(?:i am|we are|am|will be|gonna be|be) )(?:\w+ )?"
        + _USE
        + r" (?:"
        + _IT
        + r"|the \w+)(?: (?:now|off|today|tonight|"
        r"right away|straight away|out|up|down|as is|to \w+|in|on)){0,2}$|^(?:i |we )?(?:just )?(?:sent|"
        r"posted|printed|booked|ordered|"
        r"submitted|saved|merged|shipped|copied|bookmarked|forwarded) "
        + _IT
        + r"\b|(?:i|we) (?:will|shall) (?:go with|take|use|keep|buy|"
        r"order|book|send|order) (?:"
        + _IT
        + r"|the \w+)(?! (?:back|away|to pieces))|^(?:going|go) with (?:"
        + _IT
        + r"|the \w+)\b|"
        r"that is (?:me|us|him|her)$|^(?:\w+ )?" + _IT + r" it is$",
        value=1,
    ),
    Phrase(
        "approval",
        r"^(?:yes |yep |yeah |ok |and |great |now |ha |oh |wow )*(?:it |that |this |everything |"
        r"all )?(?:now |finally |really |actually |just )?"
        r"(?:works?|worked|fits?|fitted|compiles|runs|passes|builds|boots|loads|opens|starts|solved|fixed|"
        r"sorted|done|resolved|cured)"
        r"(?: (?:now|again|it|fine|great|well|perfectly|nicely|here|for me|too|at last|like a charm|"
        r"as expected|the problem|the issue|"
        r"my problem|a treat|first time|out)){0,3}$|(?:works?|worked|working|runs|"
        r"running) (?:like a (?:charm|dream)|a treat|fine|again|"
        r"perfectly|great|now|as expected)|(?:that|it|this|which) (?:has |have )?(?:fixed|solved|sorted|"
        r"cured|did|resolved|nailed|cracked) "
        r"(?:it|that|the \w+|my \w+|everything)(?! (?:wrong|badly))|did (?:it|the trick) for me|"
        r"no (?:more|longer any) (?:errors?|problems?|"
        r"warnings?|crashes)|all (?:green|passing|tests pass)|(?:error|problem|issue|bug|noise|smell|"
        r"stain|pain) (?:is |has )?(?:gone|solved|"
        r"vanished|disappeared)|up and running|back (?:up|online|to normal)",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:lights?|leds?|screen|site|server|internet|wifi|printer|it|everything|they) (?:is|"
        r"are) (?:\w+ )?(?:green|online|back|alive|working|"
        r"running|connected)(?: again| now)?|^you (?:absolute |little |are a |utter )*(?:star|legend|hero|"
        r"genius|beauty|rock|angel|champ)\b|"
        r"^(?:yes |ah |oh )?that was it$|do not change (?:(?:a|one|any|the) (?:\w+ )?(?:thing|word|comma|"
        r"letter|bit)|anything)",
        value=1,
    ),
    Phrase("approval", r"^(?:lol|lmao|rofl|haha+|hehe+|ha ha)$", value=1, weak=True),
    Phrase(
        "approval",
        r"^(?!what|who|which|nothing|how|why|when|where|if|not)(?:the |my |your |that |"
        r"this )?\w+ (?:works|worked|fits|passes|compiles|runs|loads)"
        r"(?: now| again| fine| great| perfectly| well)*$",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:good|great|nice|smart|excellent|brilliant) (?:catch|point|call|idea|thinking|eye|tip|find|"
        r"pick|choice|shout|spot|question)\b"
        r"|you (?:are|were) (?:\w+ )?(?:right|correct|spot on)|(?:finally|now it|it|"
        r"that) (?:\w+ )?(?:clicked|stuck|clicks|sticks|sank in|"
        r"dawned on me)|(?:i )?(?:never|did not) (?:knew|know|realis?ze|realise)(?: that| this| it)?$|"
        r"learn(?:ed|t) (?:something|a lot|"
        r"loads|so much)|\btil\b|that (?:explains|answers|settles|covers|helps|clears) (?:it|that|"
        r"everything|things|a lot|my \w+|the \w+)|"
        r"(?:saved|saves|made|makes) (?:me|my (?:\w+ )?(?:life|day|evening|weekend|bacon|job|week|"
        r"morning)|us)\b|life ?saver|"
        r"(?:\w+ ){0,2}(?:quiz|exam|day|dinner|party|weekend|evening|deadline|job|trip|marriage|date|"
        r"project|situation|life) saved$|"
        r"(?:just )?checked (?:and )?(?:it is|you are|that is|it was)?(?: indeed)?(?: right| correct|"
        r" true)?$|it (?:is|was|does|did) indeed|"
        r"\b(?:phew|hallelujah|eureka|voila|nailed it|chef s kiss|love it|adore it|sold|count me in|"
        r"perfecto|bueno|prima|wunderbar)\b",
        value=1,
    ),
    Phrase(
        "approval",
        r"(?:tests?|build|pipeline|ci|suite|everything|all) (?:is|are) (?:all )?(?:green|passing|"
        r"happy)(?: now| again)?|"
        r"(?:it|that|this|which|they) (?:is|was|were|are) (?:just |so |really |absolutely |simply |both |"
        r"all )?(?:perfect|great|lovely|"
        r"wonderful|brilliant|fantastic|amazing|awesome|excellent|delicious|superb|a hit|a success)$|"
        r"^(?:that is |it is |this is )?(?:the )?best "
        r"(?:\w+ ){0,3}?(?:i|ever|so far|yet)\b|^(?:\w+ )?(?:correct|exactly right|true|accurate)$|"
        r"(?:worked|works|passed|compiled|fits?) "
        r"(?:first (?:try|go|time)|on the first \w+|straight away|instantly|immediately|out of the box)|"
        r"^(?:just )?(?:sent|booked|ordered|posted|"
        r"merged|bought|submitted|shipped|saved|printed|subscribed|downloaded|framed|published)(?: (?:it|"
        r"this|that|both|all|everything|\w+))?$",
        value=1,
    ),
    Phrase(
        "approval",
        r"^(?:just )?(?:ship|send|merge|publish|print|post|run|keep) it$|^go for it$|^(?:oh |ooh |wow |"
        r"ha )?(?:that|this|it) is (?:\w+ )?(?:snappy|"
        r"crisp|punchy|clever|witty|tidy|slick|smart|funny|hilarious|adorable|poetic|touching|tasty|yummy|"
        r"neat|cute|gold)$|i (?:got|landed) the "
        r"(?:job|interview|offer|part|flat|place|deal|role|grant)|i (?:passed|aced|won|nailed)\b|(?:can|"
        r"could) not have (?:\w+ ){1,2}?"
        r"(?:it|that|this) (?:any )?better(?: \w+)?|(?:it|that|this) (?:is|"
        r"seems to be) (?:\w+ )?working(?: now| well| great| again)?$|^aha+$|"
        r"^ah+$|(?:he|she|they|everyone|the \w+|my \w+) (?:will |would |just |really |all )?(?:love|loved|"
        r"loves|liked|laughed|approved|adored)"
        r"(?: (?:it|that|this|them))?$",
        value=1,
    ),
    Phrase(
        "approval",
        r"^there (?:we|you) (?:go|are)$|\b(?:looks?|sounds?|tastes?|feels?|reads?|works?) (?:really |so |"
        r"absolutely |very |just )?(?:great|good|lovely|"
        r"nice|amazing|perfect|fantastic|beautiful|brilliant|delicious|right)(?! (?:but|if|enough to))|"
        r"\b(?:success|genius|victory)$|got an? (?:a|a plus|"
        r"100|full marks|distinction)$|^(?:oh |ah |yes |right )*of course$",
        value=1,
    ),
)
