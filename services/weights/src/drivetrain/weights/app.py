"""Wires the weights service: bus, store, replicas, and the loops that take candidates and look after replicas."""

import asyncio
import contextlib
from urllib.parse import urlsplit

from drivetrain.common.bus.handling import handle
from drivetrain.common.bus.nats import connect
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.store.checkpoints import CheckpointStore
from drivetrain.weights.engines.vllm import VllmEngine
from drivetrain.weights.replica import Replica
from drivetrain.weights.service import WeightsService
from drivetrain.weights.settings import WeightsSettings
from drivetrain.weights.source import Source


async def start(lifecycle: Lifecycle, settings: WeightsSettings) -> None:
    """Start the service: replicas are looked at once before the first candidate is taken."""
    bus = await connect(settings.bus)
    lifecycle.stack.push_async_callback(bus.close)
    service = WeightsService(
        bus,
        Source(CheckpointStore(settings.store.expanduser().absolute()), settings.policy),
        replicas(lifecycle, settings),
        settings.timeouts.reconcile_s,
    )
    lifecycle.ready_when("a replica serves the promoted version", lambda: service.serving)
    await service.recover()
    await service.reconcile()
    lifecycle.spawn(look_after(service, lifecycle, settings.timeouts.reconcile_s), "replicas")
    lifecycle.spawn(handle(bus, service.consumer, service.on_candidate, lifecycle, concurrency=1), "candidates")


def replicas(lifecycle: Lifecycle, settings: WeightsSettings) -> list[Replica]:
    """The replicas of the settings; their connections close with the service."""
    times = settings.timeouts
    engines = [VllmEngine(url, replica_name(url), times.call_s, times.load_s) for url in settings.replicas]
    for engine in engines:
        lifecycle.stack.push_async_callback(engine.close)
    return [Replica(engine, settings.probe_tolerance, times) for engine in engines]


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
