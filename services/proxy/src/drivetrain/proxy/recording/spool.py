"""The local log between replies and the bus: appended with `write()` before a reply's last bytes, published in order.

A folder of segments `<number>.log`, each a row of records: length and CRC-32 (little-endian, 4 bytes each), then the
payload. `cursor` names the first record that the bus does not have yet. What a crash tore or a disk damaged is moved to
`<number>.damaged` when the log is opened. The folder must outlive its process: whoever opens it next goes on with it.
"""

import fcntl
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from drivetrain.common.telemetry.logs import get_logger

_HEAD = struct.Struct("<II")
_MAX_RECORD = 1 << 30
_log = get_logger("spool")


class SpoolError(RuntimeError):
    """The spool cannot take or give records; the message says why and what to do."""


class Position(msgspec.Struct, frozen=True, order=True):
    """A place in the log: segment number and byte offset."""

    segment: int = 0
    offset: int = 0


class Spool:
    """One process's log. Records are read once they are whole; space is freed a segment at a time."""

    def __init__(
        self, folder: Path, *, max_bytes: int = 4 << 30, segment_bytes: int = 64 << 20, fsync: bool = False
    ) -> None:
        """Open or create the log, and set aside what is no whole record.

        Raises:
            SpoolError: the folder cannot be written, or belongs to another process.
        """
        self._folder, self._max_bytes, self._segment_bytes, self._fsync = folder, max_bytes, segment_bytes, fsync
        self._lock = _lock(folder)
        self._sizes = {number: _mended(self._path(number)) for number in self._segments()}
        self.cursor = self._load_cursor()
        self._writing = max(self._sizes, default=self.cursor.segment)
        self._file = self._open(self._writing)
        self._sizes.setdefault(self._writing, 0)

    @property
    def backlog_bytes(self) -> int:
        """Bytes of records after the cursor."""
        return sum(size for number, size in self._sizes.items() if number >= self.cursor.segment) - self.cursor.offset

    def append(self, payload: bytes) -> None:
        """Add one record; when this returns it survives the death of the process (with `fsync`, of the machine).

        Raises:
            SpoolError: the spool or the disk is full; nothing was added.
        """
        record = _HEAD.pack(len(payload), zlib.crc32(payload)) + payload
        if sum(self._sizes.values()) + len(record) > self._max_bytes:
            raise SpoolError(f"the spool is full ({self._max_bytes} bytes): is the bus away? Raise spool.max_bytes")
        if self._sizes[self._writing] and self._sizes[self._writing] + len(record) > self._segment_bytes:
            self._roll()
        try:
            written = os.write(self._file, record)
            if written < len(record):
                raise OSError("the disk is full")
            if self._fsync:
                os.fdatasync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._sizes[self._writing])
            raise SpoolError(f"cannot write to the spool in {self._folder}: {error}") from error
        self._sizes[self._writing] += len(record)

    def unread(self) -> Iterator[tuple[bytes, Position]]:
        """Records from the cursor on, oldest first, each with the cursor that follows it."""
        at = self.cursor
        for number in sorted(n for n in self._sizes if n >= at.segment):
            offset = at.offset if number == at.segment else 0
            with self._path(number).open("rb") as file:
                file.seek(offset)
                while offset < self._sizes[number]:
                    length, crc = _HEAD.unpack(file.read(_HEAD.size))
                    payload = file.read(length)
                    if zlib.crc32(payload) != crc:
                        raise SpoolError(
                            f"{self._path(number)} is damaged at byte {offset}: start again to set that aside"
                        )
                    offset += _HEAD.size + length
                    yield payload, Position(number, offset)

    def advance(self, cursor: Position) -> None:
        """Records before this place are published: delete the segments that are done with, and remember the place.

        A full disk cannot remember it. That costs nothing but copies after a restart, which the bus refuses.
        """
        self.cursor = cursor
        for number in [n for n in self._sizes if n < cursor.segment]:
            self._path(number).unlink(missing_ok=True)
            del self._sizes[number]
        temporary = self._folder / "cursor.new"
        try:
            temporary.write_bytes(msgspec.json.encode(cursor))
            temporary.replace(self._folder / "cursor")
        except OSError as error:
            _log.warning("the spool's cursor cannot be written", reason=str(error))

    def close(self) -> None:
        """Close the files; the log stays."""
        os.close(self._file)
        os.close(self._lock)

    def _roll(self) -> None:
        """Begin a segment.

        Raises:
            SpoolError: it cannot be made; the one before stays the last.
        """
        try:
            file = self._open(self._writing + 1)
        except OSError as error:
            raise SpoolError(f"cannot begin a segment in {self._folder}: {error}") from error
        os.close(self._file)
        self._file, self._writing = file, self._writing + 1
        self._sizes[self._writing] = 0

    def _open(self, number: int) -> int:
        return os.open(self._path(number), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.log"

    def _segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob("*.log") if path.stem.isdigit())

    def _load_cursor(self) -> Position:
        path, first = self._folder / "cursor", min(self._sizes, default=0)
        try:
            stored = msgspec.json.decode(path.read_bytes(), type=Position)
        except FileNotFoundError:
            return Position(first, 0)
        except msgspec.DecodeError as error:
            raise SpoolError(f"{path} is damaged: delete it, and the bus will refuse what it has already") from error
        if stored.segment not in self._sizes:
            return Position(max(stored.segment, first), 0)
        return Position(stored.segment, min(stored.offset, self._sizes[stored.segment]))


def _lock(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SpoolError(f"cannot write to the spool folder {folder} ({error.strerror}): set spool.folder") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise SpoolError(f"the spool folder {folder} belongs to another process: give each proxy its own") from error
    return lock


def _mended(path: Path) -> int:
    """The size of a segment once all that follows its last whole record is set aside."""
    whole, size = _whole_bytes(path), path.stat().st_size
    if whole < size:
        with path.open("r+b") as log, path.with_suffix(".damaged").open("ab") as aside:
            log.seek(whole)
            shutil.copyfileobj(log, aside)
            aside.flush()
            log.truncate(whole)
        _log.error("set aside what is no whole record", segment=str(path), bytes=size - whole)
    return whole


def _whole_bytes(path: Path) -> int:
    """How many bytes of a segment are whole records."""
    offset, size = 0, path.stat().st_size
    with path.open("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            length, crc = _HEAD.unpack(head)
            if length > min(_MAX_RECORD, size - offset) or zlib.crc32(payload := file.read(length)) != crc:
                break
            if len(payload) < length:
                break
            offset += _HEAD.size + length
    return offset
