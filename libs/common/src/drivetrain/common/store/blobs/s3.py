"""Values as objects of an S3-compatible bucket, below a prefix.

Where the bucket is and who may use it is read from the usual environment: `AWS_ENDPOINT_URL`, `AWS_REGION`,
`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, or the machine's own role.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from drivetrain.common.store.blobs.base import Entry
from drivetrain.common.store.errors import Absent, Full, ReadOnly, StoreError, Unavailable

PART = 16 << 20
FULL = ("507 Insufficient Storage", "QuotaExceeded", "XMinioStorageFull", "EntityTooLarge")


class S3Blobs:
    """See `Blobs` for the contract. `timeout_s` bounds one request of at most `PART` bytes, with its retries."""

    def __init__(self, bucket: str, prefix: str, timeout_s: float) -> None:
        self.url = f"s3://{bucket}/{prefix}".rstrip("/")
        plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        limit = timedelta(seconds=timeout_s)
        self._store = S3Store(
            bucket,
            prefix=prefix or None,
            client_options={"timeout": limit, "connect_timeout": min(limit, timedelta(seconds=5)), "allow_http": plain},
            retry_config={
                "max_retries": 5,
                "retry_timeout": limit,
                "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2},
            },
        )

    async def put(self, key: str, value: bytes | Path) -> None:
        with self._errors(key):
            await self._store.put_async(key, value, chunk_size=PART)

    async def read(self, key: str) -> bytes:
        with self._errors(key):
            return bytes(await (await self._store.get_async(key)).bytes_async())

    async def fetch(self, key: str, target: Path) -> None:
        with self._errors(key):
            size = (await self._store.head_async(key))["size"]
            with target.open("wb") as out:
                for start in range(0, size, PART):
                    part = await self._store.get_range_async(key, start=start, end=min(size, start + PART))
                    await asyncio.to_thread(out.write, part)

    async def entries(self, prefix: str) -> list[Entry]:
        found = []
        with self._errors(prefix):
            async for page in self._store.list(prefix):
                found += [Entry(item["path"], item["size"], item["last_modified"].timestamp()) for item in page]
        return sorted(found, key=lambda entry: entry.key)

    async def delete(self, key: str) -> None:
        with self._errors(key):
            try:
                await self._store.delete_async(key)
            except FileNotFoundError:
                return

    async def close(self) -> None:
        """Connections close with the object."""

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        """The client's errors as the store's."""
        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise StoreError(f"the bucket of {self.url} does not exist: create it") from error
            raise Absent(f"there is no {key} in {self.url}") from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise ReadOnly(f"{self.url} does not let this process do that: {_first_line(error)}") from error
        except BaseError as error:
            if any(word in str(error) for word in FULL):
                raise Full(f"{self.url} is full: free space there, or raise its quota") from error
            raise Unavailable(f"{self.url} does not answer as it should: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
