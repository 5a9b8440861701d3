"""What failures look like, a file a family. `ERRORS` is all of them, in the order in which they are looked for."""

from drivetrain.judge.sources.environment.families.code import CODE
from drivetrain.judge.sources.environment.families.gui import GUI
from drivetrain.judge.sources.environment.families.patches import PATCHES
from drivetrain.judge.sources.environment.families.rule import Kind, Rule
from drivetrain.judge.sources.environment.families.shell import SHELL
from drivetrain.judge.sources.environment.families.tools import FIELDS, TOOLS, Field
from drivetrain.judge.sources.environment.families.web import WEB

ERRORS: tuple[Rule, ...] = (*PATCHES, *SHELL, *WEB, *GUI, *CODE, *TOOLS)

__all__ = ["ERRORS", "FIELDS", "SHELL", "WEB", "Field", "Kind", "Rule"]
