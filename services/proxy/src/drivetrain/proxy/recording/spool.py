"""The local log between replies and the bus: appended with `write()` before a reply's last bytes, published in order.

A folder of segments `<number>.log` (see `recording.segments`). `cursor` names the first record that the bus does not
have yet. What is no record, or none that can be published, is kept in `<number>.damaged`. The folder must outlive its
process: whoever opens it next goes on with it.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.recording.commit import Commit, sync
from drivetrain.proxy.recording.segments import SpoolError, lock, mend, record, records, set_aside

_CURSOR_BYTES = 64
_log = get_logger("spool")


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
        self._folder, self._max_bytes, self._segment_bytes, self.fsync = folder, max_bytes, segment_bytes, fsync
        self._lock = lock(folder)
        self._unsynced: list[int] = []
        cursor = self._load_cursor()
        starts = {number: cursor.offset if number == cursor.segment else 0 for number in self._segments()}
        self._sizes = {number: mend(self._path(number), start) for number, start in starts.items()}
        self.cursor = self._within(cursor)
        self._writing = max(self._sizes, default=self.cursor.segment)
        self._file = self._open(self._writing)
        self._remembered = os.open(folder / "cursor", os.O_WRONLY | os.O_CREAT, 0o600)
        self._sizes.setdefault(self._writing, 0)
        self.advance(self.cursor)

    @property
    def backlog_bytes(self) -> int:
        """Bytes of records after the cursor."""
        return sum(size for number, size in self._sizes.items() if number >= self.cursor.segment) - self.cursor.offset

    @property
    def end(self) -> Position:
        """The place after the last record."""
        return Position(self._writing, self._sizes[self._writing])

    def append(self, payload: bytes) -> None:
        """Add one record; when this returns it survives the death of the process.

        Raises:
            SpoolError: the spool or the disk is full; nothing was added.
        """
        data = record(payload)
        if sum(self._sizes.values()) + len(data) > self._max_bytes:
            raise SpoolError(f"the spool is full ({self._max_bytes} bytes): is the bus away? Raise spool.max_bytes")
        if self._sizes[self._writing] and self._sizes[self._writing] + len(data) > self._segment_bytes:
            self._roll()
        try:
            written = os.write(self._file, data)
            if written < len(data):
                raise OSError("the disk is full")
        except OSError as error:
            self._forget_half()
            raise SpoolError(f"cannot write to the spool in {self._folder}: {error}") from error
        self._sizes[self._writing] += len(data)

    def commit(self) -> Commit:
        """What makes all that was appended until now survive the machine. It waits for the disk: call it in a thread.
        It raises OSError when the disk fails."""
        files, self._unsynced = [*self._unsynced, os.dup(self._file)], []
        return lambda: sync(files)

    def unread(self) -> Iterator[tuple[bytes | None, Position]]:
        """Records from the cursor on, oldest first, each with the cursor that follows it; None for bytes that are no
        record, which are set aside."""
        at = self.cursor
        for number in sorted(n for n in self._sizes if n >= at.segment):
            offset = at.offset if number == at.segment else 0
            with self._path(number).open("rb") as file:
                while offset < self._sizes[number]:
                    for payload, after in records(file, offset, self._sizes[number]):
                        if payload is None:
                            self.set_aside(Position(number, after), after - offset)
                        offset = after
                        yield payload, Position(number, after)

    def set_aside(self, after: Position, size: int) -> None:
        """Keep the bytes before a place, which cannot be published, beside their segment."""
        try:
            set_aside(self._path(after.segment), after.offset - size, after.offset)
        except OSError as error:
            _log.error("what cannot be published could not be set aside either", reason=str(error))

    def advance(self, cursor: Position) -> None:
        """Records before this place are published: delete the segments that are done with, and remember the place.

        A full disk cannot remember it. That costs nothing but copies after a restart, which the bus refuses.
        """
        self.cursor = cursor
        for number in [n for n in self._sizes if n < cursor.segment]:
            self._path(number).unlink(missing_ok=True)
            del self._sizes[number]
        try:
            # In place, and always as long: nothing is created or renamed while streams wait
            os.pwrite(self._remembered, msgspec.json.encode(cursor).ljust(_CURSOR_BYTES), 0)
        except OSError as error:
            _log.warning("the spool's cursor cannot be written", reason=str(error))

    def close(self) -> None:
        """Close the files; the log stays."""
        if self.fsync:
            self.commit()()
        for file in (self._file, self._remembered, self._lock):
            os.close(file)

    def _forget_half(self) -> None:
        """Take back what was written of a record; where even that fails, readers step over it."""
        try:
            os.ftruncate(self._file, self._sizes[self._writing])
        except OSError as error:
            _log.error("half a record stays in the spool", reason=str(error))
            self._sizes[self._writing] = self._path(self._writing).stat().st_size

    def _roll(self) -> None:
        """Begin a segment.

        Raises:
            SpoolError: it cannot be made; the one before stays the last.
        """
        try:
            file = self._open(self._writing + 1)
        except OSError as error:
            raise SpoolError(f"cannot begin a segment in {self._folder}: {error}") from error
        if self.fsync:
            self._unsynced.append(self._file)
        else:
            os.close(self._file)
        self._file, self._writing = file, self._writing + 1
        self._sizes[self._writing] = 0

    def _open(self, number: int) -> int:
        file = os.open(self._path(number), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        if self.fsync:
            self._unsynced.append(os.open(self._folder, os.O_RDONLY))  # holds the new file's name
        return file

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.log"

    def _segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob("*.log") if path.stem.isdigit())

    def _load_cursor(self) -> Position:
        """The stored place; the beginning when there is none: the bus refuses what it has already."""
        path = self._folder / "cursor"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Position)
        except FileNotFoundError:
            return Position()
        except msgspec.DecodeError as error:
            _log.warning("the spool's cursor is damaged: all of the log is published again", reason=str(error))
            return Position()

    def _within(self, cursor: Position) -> Position:
        """The same place, or the nearest one that exists."""
        if cursor.segment not in self._sizes:
            return Position(max(cursor.segment, min(self._sizes, default=0)), 0)
        return Position(cursor.segment, min(cursor.offset, self._sizes[cursor.segment]))
