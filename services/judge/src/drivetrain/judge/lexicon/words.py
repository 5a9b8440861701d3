"""Words that judge, describe or order a reply: lower case, without hyphens, contractions spelled out."""


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PRAISE = words(
    """
    good great nice perfect perfectly excellent awesome amazing wonderful lovely brilliant fantastic superb
    ideal fine helpful useful clear correct right accurate better best neat sweet beautiful beautifully
    impressive splendid satisfying satisfactory acceptable pleasing pleased happy glad delighted satisfied
    terrific marvellous marvelous stellar spotless flawless delightful outstanding fab fabulous cool okay ok
    well solid crisp spot relevant suitable appropriate readable understandable convincing adequate sufficient
    enough gorgeous stunning magnificent exquisite elegant hilarious priceless epic glorious smashing flawlessly
    beautifully charming heartwarming inspiring insightful
    """
)
"""Says that a reply is good."""

MILD = words(
    """
    ok okay well right enough fine clear best spot sure relevant correct correctly cool better appropriate exact
    accurate
    """
)
"""Praise inside "that is …", but filler or grammar on its own: "ok, and how do tides work?" approves of nothing."""

BLAME = words(
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

QUALITY = words(
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

COMPARATIVE = words(
    """
    shorter longer briefer simpler plainer clearer friendlier tighter crisper snappier punchier warmer leaner
    gentler softer calmer fewer less easier lighter smaller tidier neater cleaner politer quicker faster kinder
    smoother bolder blunter stricter nicer
    """
)
"""How it could be instead."""

FORM = words(
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

COUNT = words(
    """
    one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty hundred
    dozen couple single only once half third second first last 1 2 3 4 5 6 7 8 9 10 12 15 20 25 30 40 50 60 80
    100 150 200 whole entire every each several multiple both exactly maximum minimum max min
    """
)
"""How many of that."""

FORM_VERB = words(
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

ASKING = words(
    """
    ask asks asked asking tell tells told explain explained explaining describe described define say says said
    give gives gave know knew question show shows want wanted need needed mean meant wonder wondering request
    requested see find
    """
)
"""Verbs of asking and telling."""

REPLY_NOUN = words(
    """
    answer answers reply replies response responses explanation message output text paragraph attempt version
    wording tone style format formatting sentence sentences list bullets description definition summary phrasing
    result essay
    """
)
"""Names of the reply."""

EMOJI: dict[str, int] = {
    "👍": 1, "🙏": 1, "❤": 1, "😊": 1, "😀": 1, "😍": 1, "🎉": 1, "✅": 1, "👏": 1, "💯": 1, "🙂": 1, "😃": 1, "🥰": 1,
    "👌": 1, "🥳": 1, "🤩": 1, "😄": 1, "😁": 1, "🙌": 1, "🔥": 1, "🫶": 1, "💪": 1, "😋": 1,
    "👎": -1, "😠": -1, "😡": -1, "🙄": -1, "😒": -1, "😞": -1, "😤": -1, "❌": -1, "🤦": -1, "😑": -1, "😕": -1,
    "😬": -1, "😩": -1, "😫": -1, "🤨": -1, "🥱": -1, "🤬": -1, "🙃": -1, "😖": -1, "😣": -1, "🤢": -1, "🤮": -1,
    ":)": 1, ":-)": 1, ":d": 1, ":(": -1, ":-(": -1, ":/": -1,
}  # fmt: skip
