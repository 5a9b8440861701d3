"""The spool's files: segments, each a row of records, and what is done with those that a crash or a disk broke.

A record is length and CRC-32 (little-endian, 4 bytes each), then the payload, which is never empty: a row of zeros, as
a disk may leave it after a loss of power, is no record.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from drivetrain.common.telemetry.logs import get_logger

HEAD = struct.Struct("<II")
_log = get_logger("spool")


class SpoolError(RuntimeError):
    """The spool cannot take or give records; the message says why and what to do."""


def record(payload: bytes) -> bytes:
    """A payload as it lies in the log.

    Raises:
        ValueError: it is empty.
    """
    if not payload:
        raise ValueError("a record has at least one byte")
    return HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def records(file: BinaryIO, start: int, end: int) -> Iterator[tuple[bytes | None, int]]:
    """Each record in `[start, end)` with the offset that follows it; None for bytes that are none.

    A record whose checksum fails is stepped over by its length; where the length cannot be, all the rest is none.
    """
    while start < end:
        file.seek(start)
        head = file.read(HEAD.size)
        length, crc = HEAD.unpack(head) if len(head) == HEAD.size else (0, 0)
        following = start + HEAD.size + length
        if not length or following > end:
            yield None, end
            return
        payload = file.read(length)
        yield (payload if zlib.crc32(payload) == crc else None), following
        start = following


def mend(path: Path, start: int) -> int:
    """Set aside what follows a segment's last whole record from `start` on; the size that is left."""
    size = path.stat().st_size
    if start >= size:
        return size
    with path.open("r+b") as log:
        whole = max((after for payload, after in records(log, start, size) if payload is not None), default=start)
        if whole < size:
            set_aside(path, whole, size)
            log.truncate(whole)
    return whole


def set_aside(path: Path, start: int, end: int) -> None:
    """Keep bytes of a segment that cannot be published in `<segment>.damaged`; after a crash they may stand there
    twice."""
    with path.open("rb") as log, path.with_suffix(".damaged").open("ab") as aside:
        log.seek(start)
        aside.write(log.read(end - start))
    _log.error("set aside what cannot be published", segment=str(path), at=start, bytes=end - start)


def lock(folder: Path) -> int:
    """Make the folder this process's own until the file that is returned is closed.

    Raises:
        SpoolError: it cannot be written, or belongs to another process.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SpoolError(f"cannot write to the spool folder {folder} ({error.strerror}): set spool.folder") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(held)
        raise SpoolError(f"the spool folder {folder} belongs to another process: give each proxy its own") from error
    return held
