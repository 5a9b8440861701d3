"""The log file of a process: appended to by the process itself, read here only to show its end."""

import os
from pathlib import Path

TAIL_BYTES = 64 * 1024


def tail(log: Path, lines: int = 20, start: int = 0) -> str:
    """The last lines of a log after the byte `start` (where the present process began to write)."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.rstrip().splitlines()[-lines:])
