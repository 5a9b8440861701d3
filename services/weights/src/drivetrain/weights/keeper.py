"""Keeps the versions of a policy in the archive: each candidate is stored, and what retention no longer wants removed.

It works beside the roll-out and never holds it up: candidates wait in the stream while the archive does not answer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from drivetrain.common.bus.base import Bus, BusError, Consumer, Delivery
from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.events import WeightsCandidate
from drivetrain.common.store.archive import Archive
from drivetrain.common.store.checkpoints import CheckpointStore, Manifest
from drivetrain.common.store.collecting import collect
from drivetrain.common.store.errors import BadCheckpoint, NoSpace, StoreError
from drivetrain.common.store.lives import read_lives
from drivetrain.common.store.records import Record
from drivetrain.common.store.retention import Retention
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.weights import metrics
from drivetrain.weights.decisions import ACK_WAIT_S
from drivetrain.weights.source import check

log = get_logger("weights")

LONGEST_WAIT_S = 30.0


class Keeper:
    """Stores what the trainer wrote into `local`. `clock` is unix time."""

    def __init__(
        self,
        bus: Bus,
        local: CheckpointStore,
        archive: Archive,
        rule: Retention,
        retry_s: float,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._bus, self._local, self._archive, self._rule = bus, local, archive, rule
        self._retry_s, self._clock, self._sleep = retry_s, clock, sleep
        # Who needs a version at once and the consumer may both store it: the second finds it stored
        self._storing = asyncio.Lock()

    @property
    def consumer(self) -> Consumer:
        """Candidates in the order of their announcement, so that a delta's parent is stored before it."""
        policy = self._archive.policy
        subject = f"weights.candidate.{policy}.>"
        durable = f"weights-{policy}-archive"
        return Consumer("WEIGHTS", durable, (subject,), ack_wait_s=ACK_WAIT_S, max_deliver=100, max_ack_pending=1)

    async def on_candidate(self, delivery: Delivery) -> None:
        """Store a candidate, however long that takes, then collect.

        Raises:
            Unprocessable: it must not or cannot be stored; the reason says why.
        """
        event = delivery.event
        if not isinstance(event, WeightsCandidate):
            raise Unprocessable(f"{delivery.subject} is no candidate")
        try:
            await self.keep(event)
        except BadCheckpoint as error:
            raise Unprocessable(f"version {event.version} was not archived: {error}") from error
        await self._collect()

    async def keep(self, event: WeightsCandidate) -> None:
        """Store a candidate, however long the store is away.

        Raises:
            BadCheckpoint: it must not or cannot be stored.
        """
        try:
            manifest = await asyncio.to_thread(self._local.manifest, event.policy, event.version)
            check(manifest, event.policy, event.version, event.digest)
            async with self._storing:
                record = await self._store(manifest)
        except BadCheckpoint as error:
            metrics.ARCHIVE_FAILURES.labels("checkpoint").inc()
            log.error("not archived", version=event.version, reason=str(error))
            raise
        metrics.ARCHIVED_BYTES.labels(record.kind).inc(record.stored_bytes)
        sizes = {"bytes": record.stored_bytes, "of": record.full_bytes}
        log.info("archived", version=event.version, kind=record.kind, **sizes)

    async def _store(self, manifest: Manifest) -> Record:
        folder, wait = self._local.path(manifest.policy, manifest.version), self._retry_s
        while True:
            try:
                return await self._archive.add(manifest, folder, self._clock(), self._folder)
            except (StoreError, NoSpace) as error:
                metrics.ARCHIVE_FAILURES.labels("store").inc()
                log.error("the archive failed, trying again", version=manifest.version, reason=str(error))
            await self._sleep(wait)
            wait = min(LONGEST_WAIT_S, 2 * wait)

    def _folder(self, version: int) -> Path:
        return self._local.path(self._archive.policy, version)

    async def _collect(self) -> None:
        """Remove what the rule lets go. A failure costs room, nothing else: the next candidate collects again."""
        try:
            now = self._clock()
            lives = await read_lives(self._bus, self._archive.policy)
            removed = await collect(self._archive, self._rule, lives.used(now), now)
            cache = self._archive.cache
            await asyncio.to_thread(cache.keep_last, self._archive.policy, 2, {lives.promoted})
        except (BadCheckpoint, StoreError, BusError) as error:
            metrics.ARCHIVE_FAILURES.labels("collect").inc()
            log.error("not collected", reason=str(error))
            return
        if removed.versions or removed.blobs:
            log.info("collected", versions=removed.versions, blobs=removed.blobs, bytes=removed.bytes)
