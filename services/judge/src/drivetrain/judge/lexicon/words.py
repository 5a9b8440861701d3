"""Word classes: lower case, no hyphens, contractions spelled out ("isn't" is "is not")."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PRAISE = _words(
    """
    good great nice perfect perfectly excellent awesome amazing wonderful lovely brilliant fantastic superb
    ideal fine helpful useful clear correct right accurate better best neat sweet beautiful beautifully
    impressive splendid satisfying satisfactory acceptable pleasing pleased happy glad delighted satisfied
    terrific marvellous marvelous stellar spotless flawless delightful outstanding fab fabulous cool okay ok
    well solid crisp spot relevant suitable appropriate readable understandable convincing adequate sufficient
    enough
    """
)
"""Says that a reply is good."""

MILD = _words(
    """
    ok okay well right enough fine clear best spot sure relevant correct correctly cool better appropriate exact
    accurate
    """
)
"""Praise inside "that is …", but filler or grammar on its own: "ok, and how do tides work?" approves of nothing."""

BLAME = _words(
    """
    wrong incorrect bad terrible awful horrible useless unhelpful confusing confused vague boring irrelevant
    winded sloppy messy rambling rambly wordy verbose bloated longwinded inaccurate disappointing disappointed
    disappoints mess nonsense gibberish offtopic robotic stiff rude unclear unreadable poor poorly lousy
    annoying annoyed frustrating frustrated frustrates unacceptable inappropriate repetitive redundant generic
    shallow incomplete incoherent garbage rubbish crap trash lazy pointless false untrue mistaken mistake
    mistakes error errors unusable clunky cluttered overwhelming overkill excessive exhausting tedious dull
    bland cold condescending patronising patronizing pompous stuffy ridiculous absurd worse worst fail fails
    failed failing lacking lacks misses missed missing ignores ignored ignoring forgot forgets forgotten rambled
    rambles ramble waffle waffling waffles blather unsatisfying unhappy dissatisfied misunderstood misunderstand
    misread sprawling dense convoluted chatty preachy pretentious cheesy unprofessional insufficient unnecessary
    unsuitable dreadful weak overdone incomprehensible unreasonable hopeless unwanted uncalled senseless meh ugh
    yuck ew nah nope bogus wall ramblings babbling babble drivel fluff fluffy filler padding clutter lecture
    essay novel
    """
)
"""Says that a reply is bad."""

QUALITY = _words(
    """
    long longer short shorter brief briefer concise concisely succinct terse wordy verbose simple simpler simply
    plain plainer plainly clear clearer clearly formal formally informal casual casually friendly friendlier
    polite politely direct directly precise precisely specific exact detailed technical complicated complex easy
    easier compact tight tighter crisp crisper snappy snappier punchy punchier neutral warm warmer warmly
    serious funny humorous dry lively playful professional professionally structured dense loose lean leaner
    minimal full complete completely proper properly readable straightforward bare enthusiastic cheerful
    cheerfully gentle gentler softer calm calmer respectful respectfully poetic dramatic emotional academic
    scientific general broad narrow focused abrupt curt blunt chatty conversational lengthy vague literal
    abstract concrete much many little few fewer less more slow slower fancy flowery stiff condensed crowded
    heavy lighter light big small large smaller straight quick quickly fast sharp smart rough nutshell gist
    bones normal natural human personal impersonal confident humble loud quiet pushy strict tidy tidier neat
    neater cleaner clean
    """
)
"""How a reply can be."""

COMPARATIVE = _words(
    """
    shorter longer briefer simpler plainer clearer friendlier tighter crisper snappier punchier warmer leaner
    gentler softer calmer fewer less easier lighter smaller tidier neater cleaner politer quicker faster kinder
    smoother bolder blunter stricter nicer
    """
)
"""How it could be instead."""

FORM = _words(
    """
    words sentence sentences word list lists listing listed bullet bullets bulleted points point line lines
    liner liners oneliner paragraph paragraphs text prose essay wall block page length number numbers numbered
    item items table tables heading headings header headers title titles markdown bold italics italic formatting
    normal regular ordinary actual real standard usual format formatted layout structure emoji emojis
    exclamation exclamations mark marks symbols asterisk asterisks hashtags caps capitals uppercase lowercase
    capital letters letter case punctuation comma commas dash dashes hyphen hyphens semicolon semicolons
    parentheses brackets quotes tone style voice manner register wording phrasing vocabulary jargon slang
    language english spanish french german italian portuguese dutch polish russian chinese japanese korean
    arabic hindi turkish swedish latin question questions subject subjects topic noun name names named naming
    keyword term terms intro introduction preamble opening beginning start ending end conclusion closing summary
    disclaimer disclaimers caveat caveats apology apologies filler fluff padding repetition detail details
    example examples analogy rhyme rhymes verse poem haiku json yaml xml csv html code snippet snippets greeting
    greetings salutation compliment hedging steps step fragments fragment clause clauses syllables characters
    answer answers answered answering reply replies replied replying response responses respond responded
    responding message messages output explanation explanations description definition version draft attempt go
    content information info stuff extras extra everything tangent tangents digressions enumeration enumerations
    enumerated dots colon colons statement statements phrase phrases spaces newline newlines section sections
    person active passive tense past present
    """
)
"""What a reply is made of."""

COUNT = _words(
    """
    one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty hundred
    dozen couple single only once half third second first last 1 2 3 4 5 6 7 8 9 10 12 15 20 25 30 40 50 60 80
    100 150 200 whole entire every each several multiple both exactly maximum minimum max min
    """
)
"""How many of that."""

FORM_VERB = _words(
    """
    answer reply respond write rewrite rephrase reword phrase word say state keep make put use give stick limit
    start begin open end finish close stop avoid drop skip remove cut trim shorten condense tighten compress
    reduce simplify summarise summarize name mention include add be try format structure leave omit lose spare
    ditch quit speak talk sound stay get focus restrict confine squeeze fit boil break turn tone dial refrain
    follow respect obey remember wrap lead bring choose pick go hold watch mind let switch replace repeat do
    without need needs prefer want like rather read reads sounds kept keeps leaving using making putting giving
    sticking ending starting naming mentioning including writing speaking being adding come
    """
)
"""What one tells an assistant to do with it."""

ASKING = _words(
    """
    ask asks asked asking tell tells told explain explained explaining describe described define say says said
    give gives gave know knew question show shows want wanted need needed mean meant wonder wondering request
    requested see find
    """
)
"""Verbs of asking and telling."""

REPLY_NOUN = _words(
    """
    answer answers reply replies response responses explanation message output text paragraph attempt version
    wording tone style format formatting sentence sentences list bullets description definition summary phrasing
    result essay
    """
)
"""Names of the reply."""

FUNCTION = _words(
    """
    a an the and or but so if then than as at by for from in into of off on onto out over to under up with
    within without about after before between per via until while because since though although yet nor not no
    never none nothing anything something i me my mine we us our you your yours he she they them their it its
    this that these those there here who whom whose which what when where why how is are was were be been being
    am do does did done doing have has had having will would can could may might must shall should ought let
    lets please kindly just only really very quite rather pretty actually basically simply even still again also
    too now next time times always ever maybe perhaps bit lot lots kind sort way ways much many more most less
    least few little some any all each every both either neither other others another such same like well okay
    ok oh ah hmm hm um uh hey hi hello yes yeah yep yup nope sorry back down away instead else once twice ago
    already soon later today able going gonna want wants wanted need needs try thing things one ones got get
    gets getting go goes make makes made take takes took turn turns come comes came put puts use uses used
    however otherwise future onwards forward know think thought feel feels guess believe sure bother mind help
    anyway far near address addresses addressed suit suits bore bores bored boring leave leaves annoy annoys
    head heads front upfront top bottom side part parts rest half thrice loud quietly meant fan style work works
    working worked wiser lose lost skip skipped count counts plain fine big huge giant massive enormous tiny
    heap pile bunch ton loads tons load dump block blocks person human robot machine teacher child kid kids
    adult beginner expert year old layman textbook dictionary encyclopedia wikipedia professor lawyer salesman
    brochure manual suppose supposed call called appear appears scroll forever single happened happen possible
    possibly impossible huh pardon eh hmmm mm mhm aha aw aww whoa wow yikes guys friend pal mate buddy sir dear
    bot ai assistant chat seriously kinda sorta dunno gotta wanna around through across during whether cannot
    """
)
"""Grammar, filler and words too general to be a subject."""

PREFERENCE_STEM = _words(
    """
    prefer want need like love expect hope wish enjoy appreciate
    """
)
"""Wishes."""

UNTOUCHED = _words(
    """
    is was are were do does did has have had am be will would can could should may might must explain translate
    save send run show tell thank thanks love like loved liked enjoy believe know meant mean think guess see
    understand get got hear heard read use used why what how who where when which whose if and or but not no yes
    about in on at to of with for from by said say i you we they he she it that this keep kept good great nice
    please just now describe discuss compare need want wanted find found all so such only also even still really
    very than
    """
)
"""Not imperatives in "… it": grammar, and verbs that ask for something new."""

INTERROGATIVES = _words(
    """
    what who whom whose which when where why how
    """
)
"""Question words."""

AUXILIARIES = _words(
    """
    is are was were do does did can could would will should shall may might has have had am
    """
)
"""Verbs that open a question."""

SPECIFIC = _words(
    """
    when where who whom whose why
    """
)
"""Question words that make another question of the same subject."""

SUBORDINATORS = _words(
    """
    if when whenever because since while unless until once
    """
)
"""Openers of a clause that is not about the reply."""

CONTRASTS = _words(
    """
    now next but however though although except yet still only
    """
)
"""Openers that turn a compliment into a wish ("nice, but …")."""

OPENERS = _words(
    """
    and so but well ok okay then hold on hmm oh ah um no yes yeah sorry look hey please wait now also again
    """
)
"""Words before the start of a clause proper."""

EMOJI: dict[str, int] = {
    "👍": 1, "🙏": 1, "❤": 1, "😊": 1, "😀": 1, "😍": 1, "🎉": 1, "✅": 1, "👏": 1, "💯": 1, "🙂": 1, "😃": 1, "🥰": 1,
    "👌": 1,
    "👎": -1, "😠": -1, "😡": -1, "🙄": -1, "😒": -1, "😞": -1, "😤": -1, "❌": -1, "🤦": -1, "😑": -1, "😕": -1,
    ":)": 1, ":-)": 1, ":d": 1, ":(": -1, ":-(": -1, ":/": -1,
}  # fmt: skip
