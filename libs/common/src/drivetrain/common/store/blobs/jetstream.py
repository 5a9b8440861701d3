"""Values as objects of a JetStream object store: for installations that have nothing but the bus."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import ObjectStoreConfig, StorageType
from nats.js.errors import APIError, NotFoundError, ObjectNotFoundError
from nats.js.object_store import ObjectStore

from drivetrain.common.store.blobs.base import Entry
from drivetrain.common.store.errors import Absent, Full, ReadOnly, StoreError, Unavailable

PART = 16 << 20
FULL = ("maximum bytes exceeded", "insufficient storage", "resource limits exceeded")
READ_ONLY = ("sealed", "permissions violation")


class JetStreamBlobs:
    """See `Blobs` for the contract. The bucket is created if it is missing; `timeout_s` bounds each answer of the
    server, and the way of each `PART` bytes."""

    def __init__(self, server: str, bucket: str, timeout_s: float) -> None:
        self.url = f"{server}/{bucket}"
        self._server, self._bucket, self._timeout_s = server, bucket, timeout_s
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def put(self, key: str, value: bytes | Path) -> None:
        async with self._store(key) as store:
            if isinstance(value, bytes):
                await store.put(key, value)
                return
            with value.open("rb") as source:
                await store.put(key, source)

    async def read(self, key: str) -> bytes:
        async with self._store(key) as store, await self._limit(store, key):
            return bytes((await store.get(key)).data or b"")

    async def fetch(self, key: str, target: Path) -> None:
        async with self._store(key) as store, await self._limit(store, key):
            with target.open("wb") as out:
                await store.get(key, writeinto=out)

    async def entries(self, prefix: str) -> list[Entry]:
        try:
            async with self._store(prefix) as store, asyncio.timeout(self._timeout_s):
                found = await store.list(ignore_deletes=True)
        except Absent:  # that is how an empty bucket answers
            return []
        wanted = [info for info in found if info.name.startswith(prefix)]
        entries = [Entry(info.name, info.size, datetime.fromisoformat(info.mtime).timestamp()) for info in wanted]
        return sorted(entries, key=lambda entry: entry.key)

    async def delete(self, key: str) -> None:
        try:
            async with self._store(key) as store:
                await store.delete(key)
        except Absent:
            return

    async def close(self) -> None:
        if self._client:
            await self._client.close()

    async def _limit(self, store: ObjectStore, key: str) -> asyncio.Timeout:
        """The time that reading a value may take: the client itself would wait for ever."""
        size = (await store.get_info(key)).size or 0
        return asyncio.timeout(self._timeout_s * (1 + size // PART))

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is None:
                options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.5, "error_cb": _ignore}
                connecting = nats.connect([self._server], connect_timeout=self._timeout_s, **options)
                self._client = await asyncio.wait_for(connecting, self._timeout_s)
            return self._client

    @asynccontextmanager
    async def _store(self, key: str) -> AsyncIterator[ObjectStore]:
        """The bucket; the client's errors as the store's."""
        try:
            stream = (await self._connected()).jetstream(timeout=self._timeout_s)
            try:
                store = await stream.object_store(self._bucket)
            except NotFoundError:
                store = await stream.create_object_store(self._bucket, ObjectStoreConfig(storage=StorageType.FILE))
            yield store
        except (NotFoundError, ObjectNotFoundError) as error:
            raise Absent(f"there is no {key} in {self.url}") from error
        except APIError as error:
            raise self._refused(key, error) from error
        except (NatsError, OSError, TimeoutError) as error:
            raise Unavailable(f"{self.url} does not answer as it should: {error!r}") from error

    def _refused(self, key: str, error: APIError) -> StoreError:
        reason = error.description or str(error)
        if any(word in reason for word in FULL):
            return Full(f"{self.url} is full: raise the bucket's limit or collect old versions ({reason})")
        if any(word in reason for word in READ_ONLY):
            return ReadOnly(f"{self.url} cannot be written: {reason}")
        if error.code == 503:
            return Unavailable(f"{self.url} does not answer as it should: {reason}")
        return StoreError(f"{self.url} failed at {key}: {reason}")


async def _ignore(error: Exception) -> None:
    """What the connection says in the background comes back as the error of the call that it hit."""
