"""How much of the disk a sandbox takes. Without a quota of the file system, looking is what there is: a file is bounded
by the kernel, all of them together by the next look."""

import asyncio
import os
from pathlib import Path

from drivetrain.orchestrator.backends.process.limits import MIB, Limits

LOOK_S = 0.25
BLOCK = 512
"""Bytes that `st_blocks` counts in, whatever the file system's own blocks are."""


def too_full(folder: Path, limits: Limits) -> bool:
    """Whether a folder takes more than the limits allow. Ends at the first sign of it."""
    left_bytes, left_files = limits.disk_mb * MIB, limits.files
    waiting = [str(folder)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:  # it is gone by now, or closed to us
            continue
        left_files -= len(entries)
        for entry in entries:
            try:
                left_bytes -= entry.stat(follow_symlinks=False).st_blocks * BLOCK
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
            except OSError:
                continue
        if left_bytes < 0 or left_files < 0:
            return True
    return False


async def until_full(folder: Path, limits: Limits) -> None:
    """Return as soon as a folder takes more than the limits allow; looks less often where looking takes long."""
    loop = asyncio.get_running_loop()
    while True:
        begun = loop.time()
        if await asyncio.to_thread(too_full, folder, limits):
            return
        await asyncio.sleep(max(LOOK_S, 10 * (loop.time() - begun)))
