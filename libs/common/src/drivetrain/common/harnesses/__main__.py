"""Writes the page on harnesses: `python -m drivetrain.common.harnesses > docs/harnesses.md`."""

import sys

from drivetrain.common.harnesses import load_harnesses
from drivetrain.common.harnesses.page import page

sys.stdout.write(page(load_harnesses()))
