"""A small value in a file of its own, replaced at once or not at all: the lineage, the plan of a batch."""

import os
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from drivetrain.common.store import BadCheckpoint

T = TypeVar("T", bound=msgspec.Struct)


class Record(Generic[T]):
    """A value of one type, as JSON."""

    def __init__(self, file: Path, kind: type[T]) -> None:
        self._file = file
        self._kind = kind

    def read(self) -> T | None:
        """The value, None if it was never written.

        Raises:
            BadCheckpoint: the file is damaged.
        """
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=self._kind)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise BadCheckpoint(f"{self._file} cannot be read ({error}): move it away") from error

    def write(self, value: T) -> None:
        """Replace the value.

        Raises:
            OSError: the disk failed; the old value is still there.
        """
        self._file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._file.with_suffix(".writing")
        with fresh.open("wb") as stream:
            stream.write(msgspec.json.encode(value))
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(self._file)
