"""Phrases that tell the assistant what to do: instructions and preferences."""

from drivetrain.judge.lexicon.phrase import Phrase

WISHES: tuple[Phrase, ...] = (
    Phrase(
        "instruction",
        r"<LATER>",
    ),
    Phrase(
        "instruction",
        r"(?:should|must|needs? to|ought to|has to|had better)(?! i)",
        about=True,
    ),
    Phrase(
        "instruction",
        r"^(?:but |and |so |then |now |also |again |ok |okay |well |look |hey |kindly |please |just |only |"
        r"simply |try to |remember to |try and |let us |you (?:can|may|could|should|must|need to|have to) |"
        r"<LATER> )*(?:do not|never|always|stop|avoid|quit|refrain from|enough with|enough of|no more|less of|"
        r"cut out|cut the|cut down|drop the|drop all|skip the|skip all|lose the|spare me|address (?:my|the)|"
        r"ditch the|ditch all|leave out|leave off|omit|tone down|dial|get rid of|get to the|mind the|mind "
        r"your|watch the|watch your|stick to|remember)(?! (?:worry|bother))",
    ),
    Phrase(
        "instruction",
        r"(?:^|\b(?:please|just|kindly|want|need|like|expect|love|wish|prefer|rather|have|ask|could|can|would|"
        r"will|not|try|should|must|to|and|but|so|then|mind|also|only|simply|always|instead|hope|hoping) "
        r"(?:(?:you|for you|it if you|if you|also|just|only|simply|please|could|can|would|to|try|also|maybe|"
        r"perhaps) ){0,4})<FORM_VERB> (?:(?:it|that|this|them|things|your|the|me|us|all|to|more|be|always|"
        r"again|a|in|as) ){0,3}?(?:<QUALITY>|<FORM>|<COUNT>|brief|better)",
        about=True,
    ),
    Phrase(
        "instruction",
        r"^(?:please |just |kindly |but |and |so |now )*(?:write|say|put|make|keep|give|phrase|word|state|"
        r"answer) (?:it|that|this|them|your \w+)\b",
        about=True,
    ),
    Phrase(
        "instruction",
        r"^<ASK>(?!<UNTOUCHED>\b)\w+ (?:it|that|this|them|your \w+|the <REPLY_NOUN>) (?:\w+ ){0,3}?(?:<FORM>|"
        r"<QUALITY>|<COUNT>)\b",
    ),
    Phrase(
        "instruction",
        r"^<ASK>(?:(?:speak|talk) (?:to me|in|like|as|more|less|with|plain\w*|normal\w*)|(?:answer|reply|"
        r"respond|write)(?: to me| me)? (?:in|like|as|with|using|more|less|only|without)|call me|address me|"
        r"refer to|switch to|mention|include|refrain|greet|add|insert|append|attach|(?:use|cite|quote) (?:\w+ "
        r"){0,2}?(?:units?|system|spelling|words?|tone|style|language|sources?)|(?:end|start|begin|finish|"
        r"open|close) (?:\w+ ){0,3}?(?:with|by|on|in)|focus on (?:the|my|what))",
    ),
    Phrase(
        "instruction",
        r"^please (?:use|end|start|begin|finish|avoid|keep|stay|be|stop|stick)",
    ),
    Phrase(
        "instruction",
        r"^(?:but |and |so |just |please |also |now |then )*no (?:\w+ ){0,2}?<FORM>|^without (?:\w+ "
        r"){0,3}?<FORM>",
    ),
    Phrase(
        "instruction",
        r"(?:can|could|would|will|may|might|is it possible to|any chance|how about|what about|why not|mind|"
        r"possible) (?:(?:we|you|i|it|to|of|just|only|please|at|least|have|get|also|maybe|be) ){0,4}?(?:\w+ "
        r"){0,2}?(?:<COMPARATIVE>|<FORM>|(?:more|less) \w+)",
        about=True,
    ),
    Phrase(
        "instruction",
        r"(?:^|\b(?:be|it|that|this|please|something|bit|much|make|little|and|answer|reply|even|needs?|far|"
        r"way|lot|a) )(?:(?:bit|little|lot|much|even|far|be|to|a) ){0,2}(?:<COMPARATIVE>|(?:more|less) "
        r"(?:<QUALITY>|<FORM>|\w+ly|\w+ful|\w+al|\w+ous))",
        about=True,
    ),
    Phrase(
        "preference",
        r"i (?:\w+ )?(?:would|will) (?:\w+ ){0,2}?(?:prefer|rather|like|love|appreciate|want|enjoy|need|have "
        r"(?:preferred|liked|loved|wanted|expected))",
        about=True,
    ),
    Phrase(
        "preference",
        r"i (?:\w+ ){0,2}?(?:prefer|like|want|need|love|expect|enjoy|hate|dislike|despise|detest|value|wish|"
        r"hope|insist)(?<!like)(?<!love)(?<!enjoy)|i (?:\w+ )?(?:like|love|enjoy)(?! (?:it|this|that|how|the|"
        r"your))",
        about=True,
    ),
    Phrase(
        "preference",
        r"(?:my|a) (?:\w+ )?(?:preference|rule|request|taste)|the rule is|i (?:am|was) (?:\w+ )?(?:happier|"
        r"happiest|fan of|into|allergic|looking for|after (?!all)|hoping|expecting|asking|tired of|sick of|"
        r"fed up|bored|happier|happiest)",
        about=True,
    ),
    Phrase(
        "preference",
        r"i (?:only|just|simply|merely) (?:want|need|have|understand|speak|read|like|know|care)(?! to (?:know|"
        r"ask|thank))|i would (?:\w+ )?be (?:\w+ )?(?:happ\w+|glad|grateful|delighted|pleased)|^(?:less|fewer|"
        r"enough)(?: \w+){1,2}$",
    ),
    Phrase(
        "preference",
        r"(?:i|we) (?:can|could) not (?:stand|bear|read|use|deal with|handle|stomach)",
        about=True,
    ),
    Phrase(
        "preference",
        r"(?:is|are|was|would be) (?:all|plenty|enough)(?: i| that i| for me|$)",
        weak=True,
        about=True,
    ),
    Phrase(
        "preference",
        r"(?:<FORM>|<QUALITY>) (?:is |are |will |would )?(?:please|only|instead|enough|suffices?|will do|"
        r"would do|preferred|max|maximum|at most)",
        about=True,
    ),
    Phrase(
        "preference",
        r"(?:just|only|simply|merely|at most|no more than|fewer than|under|within|max|maximum|up to) (?:a |an "
        r"|the |in )?(?:\w+ ){0,2}?<FORM>",
        weak=True,
        about=True,
    ),
)
