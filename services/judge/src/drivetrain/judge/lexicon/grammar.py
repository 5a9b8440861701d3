"""Words of grammar, by what they do in a clause."""

from drivetrain.judge.lexicon.words import words

FUNCTION = words(
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

PREFERENCE_STEM = words(
    """
    prefer want need like love expect hope wish enjoy appreciate
    """
)
"""Wishes."""

UNTOUCHED = words(
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

INTERROGATIVES = words(
    """
    what who whom whose which when where why how
    """
)
"""Question words."""

AUXILIARIES = words(
    """
    is are was were do does did can could would will should shall may might has have had am
    """
)
"""Verbs that open a question."""

SPECIFIC = words(
    """
    when where who whom whose why
    """
)
"""Question words that make another question of the same subject."""

SUBORDINATORS = words(
    """
    if when whenever because since while unless until once
    """
)
"""Openers of a clause that is not about the reply."""

CONTRASTS = words(
    """
    now next but however though although except yet still only
    """
)
"""Openers that turn a compliment into a wish ("nice, but …")."""

OPENERS = words(
    """
    and so but well ok okay then hold on hmm oh ah um no yes yeah sorry look hey please wait now also again
    """
)
"""Words before the start of a clause proper."""

TAGS = frozenset({"no", "right", "yes", "ok", "okay", "huh", "eh", "correct", "yeah"})
"""Asked at the end of a statement, they ask for agreement: "that is rare, no?"."""
