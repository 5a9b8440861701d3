"""Wires the orchestrator: settings, bus, harnesses, backend, and the loop that takes requests."""

import time

from drivetrain.common.bus.nats import connect
from drivetrain.common.harnesses import load_harnesses
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.orchestrator.backends.making import open_backend
from drivetrain.orchestrator.lifecycle.attempts import Attempts, Retries
from drivetrain.orchestrator.lifecycle.demand import Demand
from drivetrain.orchestrator.lifecycle.orchestrator import Ceilings, Orchestrator
from drivetrain.orchestrator.running.requests import Planner
from drivetrain.orchestrator.running.runner import Runner
from drivetrain.orchestrator.settings import OrchestratorSettings
from drivetrain.orchestrator.work_folder import claimed, fresh


async def start(lifecycle: Lifecycle, settings: OrchestratorSettings) -> None:
    """Start the orchestrator as a part of a service's life.

    Raises:
        FolderInUse, BackendError, BadDeclaration, BusError: each says what to change.
    """
    folder = settings.work_folder.expanduser().absolute()
    lifecycle.stack.enter_context(claimed(folder))
    backend = await open_backend(settings, folder)
    lifecycle.stack.push_async_callback(backend.close)
    harnesses = load_harnesses(settings.harness_folders)
    bus = await connect(settings.bus)
    lifecycle.stack.push_async_callback(bus.close)
    secret = settings.secret.get_secret_value().encode()
    planner = Planner(settings.proxy_url, secret, harnesses, settings.context_tokens, settings.reply_tokens)
    runner = Runner(backend, fresh(folder / "staging"), settings.salvage)
    attempts = Attempts(bus, planner, runner, Retries(settings.attempts, settings.backoff_s), time.time)
    ceilings = Ceilings(settings.concurrency, settings.run_concurrency)
    demand = Demand(bus, settings.max_staleness, settings.ahead)
    orchestrator = Orchestrator(bus, backend, attempts, ceilings, demand, time.time)
    lifecycle.ready_when("taking requests", lambda: orchestrator.serving)
    lifecycle.spawn(orchestrator.serve(), "orchestrator")
    lifecycle.spawn(_drain(lifecycle, orchestrator, settings.drain_s), "drain")


async def _drain(lifecycle: Lifecycle, orchestrator: Orchestrator, patience_s: float) -> None:
    await lifecycle.until_stopped()
    await orchestrator.drain(patience_s)
