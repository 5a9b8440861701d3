"""Writes the page of what is supported: `python -m drivetrain.proxy.dialects > docs/dialects.md`."""

import sys

from drivetrain.proxy.dialects.catalog import page

sys.stdout.write(page())
