"""Values as files below a folder. Each is written beside its place and appears by one rename."""

import asyncio
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drivetrain.common.store.blobs.base import Entry
from drivetrain.common.store.errors import Absent, Full, ReadOnly, StoreError

UNFINISHED = ".writing-"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class LocalBlobs:
    """See `Blobs` for the contract."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = root.absolute().as_uri()

    async def put(self, key: str, value: bytes | Path) -> None:
        await asyncio.to_thread(self._put, key, value)

    async def read(self, key: str) -> bytes:
        return await asyncio.to_thread(self._read, key)

    async def fetch(self, key: str, target: Path) -> None:
        with self._errors(key):
            await asyncio.to_thread(shutil.copyfile, self.root / key, target)

    async def entries(self, prefix: str) -> list[Entry]:
        return await asyncio.to_thread(lambda: sorted(self._entries(prefix), key=lambda entry: entry.key))

    async def delete(self, key: str) -> None:
        with self._errors(key):
            await asyncio.to_thread((self.root / key).unlink, missing_ok=True)

    async def close(self) -> None:
        """Nothing is open."""

    def _read(self, key: str) -> bytes:
        with self._errors(key):
            return (self.root / key).read_bytes()

    def _put(self, key: str, value: bytes | Path) -> None:
        target = self.root / key
        fresh = target.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")
        with self._errors(key):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                _write(fresh, value)
                fresh.replace(target)
            finally:
                fresh.unlink(missing_ok=True)
            _sync(target.parent)

    def _entries(self, prefix: str) -> Iterator[Entry]:
        for file in (self.root / prefix).rglob("*"):
            if file.is_file() and not file.name.startswith(UNFINISHED):
                facts = file.stat()
                yield Entry(file.relative_to(self.root).as_posix(), facts.st_size, facts.st_mtime)

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        """The disk's errors as the store's."""
        try:
            yield
        except FileNotFoundError as error:
            raise Absent(f"there is no {key} in {self.url}") from error
        except OSError as error:
            if error.errno in FULL:
                raise Full(f"{self.url} is full: free space there, or move the store") from error
            if error.errno in READ_ONLY:
                raise ReadOnly(
                    f"{self.url} cannot be written: {error.strerror}. Give this process the right"
                ) from error
            raise StoreError(f"{self.url} failed at {key}: {error}") from error


def _write(file: Path, value: bytes | Path) -> None:
    with file.open("wb") as out:
        if isinstance(value, Path):
            with value.open("rb") as source:
                shutil.copyfileobj(source, out, 1 << 22)
        else:
            out.write(value)
        out.flush()
        os.fsync(out.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
