"""Wires the weights service: bus, store, replicas, and the loops that take candidates and look after replicas."""

import asyncio
import contextlib
import time
from urllib.parse import urlsplit

from drivetrain.common.bus.base import Bus
from drivetrain.common.bus.handling import handle
from drivetrain.common.bus.nats import connect
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.store.archive import Archive
from drivetrain.common.store.blobs import open_blobs
from drivetrain.common.store.checkpoints import CheckpointStore
from drivetrain.common.store.retention import Retention
from drivetrain.weights.engines.vllm import VllmEngine
from drivetrain.weights.fleet import Fleet
from drivetrain.weights.keeper import Keeper
from drivetrain.weights.replica import Replica
from drivetrain.weights.service import WeightsService
from drivetrain.weights.settings import WeightsSettings
from drivetrain.weights.source import Source

DAY_S = 86_400.0


async def start(lifecycle: Lifecycle, settings: WeightsSettings) -> None:
    """Start the service: replicas are looked at once before the first candidate is taken."""
    bus = await connect(settings.bus)
    lifecycle.stack.push_async_callback(bus.close)
    store = CheckpointStore(settings.store.expanduser().absolute())
    archive = open_archive(lifecycle, settings, store)
    keeper = archive and make_keeper(bus, settings, store, archive)
    from_archive = settings.delivery == "archive"
    service = WeightsService(
        bus,
        Source(store, settings.policy, archive, (from_archive and settings.archive.url) or ""),
        make_fleet(lifecycle, settings, bus),
        settings.timeouts.reconcile_s,
        unused_s=settings.timeouts.unused_s,
        store_first=keeper.keep if keeper and from_archive else None,
    )
    lifecycle.ready_when("a replica serves the promoted version", lambda: service.serving)
    await service.recover()
    await service.reconcile()
    lifecycle.spawn(look_after(service, lifecycle, settings.timeouts.reconcile_s), "replicas")
    lifecycle.spawn(handle(bus, service.consumer, service.on_candidate, lifecycle, concurrency=1), "candidates")
    lifecycle.spawn(handle(bus, service.rollbacks, service.on_rollback, lifecycle, concurrency=1), "rollbacks")
    if keeper:
        lifecycle.spawn(handle(bus, keeper.consumer, keeper.on_candidate, lifecycle, concurrency=1), "archive")


def make_keeper(bus: Bus, settings: WeightsSettings, store: CheckpointStore, archive: Archive) -> Keeper:
    """What stores candidates in the archive."""
    days = settings.archive.max_age_days
    rule = Retention(settings.archive.keep, None if days is None else days * DAY_S)
    return Keeper(bus, store, archive, rule, settings.timeouts.retry_s)


def open_archive(lifecycle: Lifecycle, settings: WeightsSettings, store: CheckpointStore) -> Archive | None:
    """The archive of the settings, if there is one; its connections close with the service. What is read out of it
    lies below the trainer's folder, where the replicas see it."""
    chosen = settings.archive
    if chosen.url is None:
        return None
    blobs = open_blobs(chosen.url, chosen.timeout_s)
    lifecycle.stack.push_async_callback(blobs.close)
    return Archive(blobs, settings.policy, store.root / ".archive", chosen.full_every)


def make_fleet(lifecycle: Lifecycle, settings: WeightsSettings, bus: Bus) -> Fleet:
    """The replicas of the settings, and those that announce themselves if they may; connections close with the
    service."""
    times = settings.timeouts

    def replica(url: str, name: str) -> Replica:
        engine = VllmEngine(url, name, times.call_s, times.load_s)
        lifecycle.stack.push_async_callback(engine.close)
        return Replica(engine, settings.probe_tolerance, times)

    return Fleet(
        bus,
        settings.policy,
        [replica(url, replica_name(url)) for url in settings.replicas],
        time.time,
        make=replica if settings.announced else None,
        max_unavailable=settings.max_unavailable,
        sticky=settings.sticky,
    )


def replica_name(url: str) -> str:
    """A replica's name in events and metrics, usable as one token of a subject: host and port."""
    parts = urlsplit(url)
    host = (parts.hostname or "").replace(".", "-").replace(":", "-")
    return f"{host}-{parts.port}" if parts.port else host


async def look_after(service: WeightsService, lifecycle: Lifecycle, every_s: float) -> None:
    """Reconcile the replicas every so often until the service stops."""
    while not lifecycle.stopping:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(lifecycle.until_stopped(), every_s)
            return
        await service.reconcile()
