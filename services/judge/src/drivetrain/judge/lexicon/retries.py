"""Phrases that ask for another try, or doubt the reply."""

from drivetrain.judge.lexicon.phrase import Phrase

RETRIES: tuple[Phrase, ...] = (
    Phrase(
        "doubt",
        r"are you (?:really |quite )?(?:sure|certain|serious|kidding|joking|listening|even|reading)|did you "
        r"(?:\w+ )?(?:read|understand|get|see|listen|hear)|is (?:this|that) (?:\w+ )?(?:a joke|supposed|meant|"
        r"all|your)|was (?:this|that|it) (?:\w+ )?(?:supposed|meant)|what do you mean|i doubt|says who|"
        r"come again|can you (?:\w+ )?(?:read|count|follow)|you sure",
    ),
    Phrase(
        "doubt",
        r"huh|pardon|^(?:oh |hm+ |wait |but )*(?:really|seriously|for real|is it|is that so|since when|how come)$",
        asks=True,
    ),
    Phrase(
        "doubt",
        r"i (?:\w+ )?thought (?:it|that|this|he|she|they|the \w+|you) (?:\w+ )?(?:was|were|is|are|had|did|"
        r"meant|could|would)",
    ),
    Phrase(
        "redo",
        r"(?:try|do|say|write|answer|explain|put|start|phrase|go|give|have|take|tell|ask|asking|asked|list|"
        r"once|one|here we go|there you go|lists?|bullets?|long|wrong|it|that|this) (?:\w+ ){0,4}?(?:again|"
        r"once more|over again|one more time)",
    ),
    Phrase(
        "redo",
        r"(?:do|try|take|say) (?:it|that|this) over|once more|one more time",
    ),
    Phrase(
        "redo",
        r"^(?:again|once more|one more time)|again$|same (?:question|problem|thing|issue|mistake) (?:as|again|"
        r"still)?|(?:another|one more|a second|a new|a better|a fresh) (?:try|go|shot|attempt|version|answer|"
        r"chance|round|stab|crack|take)|start over|redo|do over|from scratch|try harder|try something|(?:back "
        r"to|let us go back)|i (?:will|shall|have to|am going to|must|need to|would) (?:\w+ )?(?:repeat|"
        r"rephrase|ask (?:\w+ )?again|reword|try again|clarify|be clearer)|(?:let me|allow me to|to) (?:\w+ "
        r")?(?:repeat|rephrase|ask again|clarify|reword|try (?:this|that|it|again)|be clear)|revise (?:it|"
        r"that|this|your)|undo|fix (?:it|that|this|your|the <FORM>)|correct (?:it|that|this|yourself|your)",
    ),
    Phrase(
        "redo",
        r"^(?:please )?(?:rewrite|rephrase|reword|shorten|simplify|condense|trim|tighten|compress|reformulate|"
        r"restate|cut)(?: (?:it|that|this|down|your|the))?(?= |$)",
        about=True,
    ),
    Phrase(
        "redo",
        r"^<ASK>(?!<UNTOUCHED>\b)(?!(?!need|feed|embed)\w+(?:ed|ing)\b)(?!(?:knew|got|did|had|made|took|"
        r"ran|saw|sent|found|went|wrote|told|came|gave|kept|left|lost|meant|paid|sold|won|ate|built|"
        r"bought|brought|chose|drew|heard|held|met|taught)\b)\w+ (?:it|that|this|them|your \w+|"
        r"the <REPLY_NOUN>)(?: (?:up|down|out|off|"
        r"over|in|back|shut|for me|now|then|instead|please|a bit|a little|to me|right|again|properly))*$",
    ),
)
