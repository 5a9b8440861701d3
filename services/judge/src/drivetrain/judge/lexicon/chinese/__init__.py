"""How Chinese speakers react to a reply. The patterns are for a clause without spaces; nothing marks words in it."""

from drivetrain.judge.lexicon.chinese.approvals import APPROVALS
from drivetrain.judge.lexicon.chinese.asides import ASIDES
from drivetrain.judge.lexicon.chinese.objections import OBJECTIONS
from drivetrain.judge.lexicon.chinese.questions import DOUBTS, MOVES_ON, QUESTION, REQUESTS, TURN
from drivetrain.judge.lexicon.chinese.wishes import WISHES

__all__ = ["APPROVALS", "ASIDES", "DOUBTS", "MOVES_ON", "OBJECTIONS", "QUESTION", "REQUESTS", "TURN", "WISHES"]
