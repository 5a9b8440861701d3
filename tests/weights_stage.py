"""A stage for the weights service: a bus in memory, a store, and replicas that behave as told."""

import asyncio
from collections.abc import Callable, Sequence

from drivetrain.common.bus.memory import MemoryBus
from drivetrain.common.events import (
    ReplicaRotation,
    WeightsCandidate,
    WeightsHeld,
    WeightsLoaded,
    WeightsPromoted,
    WeightsRollback,
    WeightsRolledback,
)
from drivetrain.common.store.checkpoints import CheckpointStore, Manifest
from drivetrain.weights.checks.base import Check
from drivetrain.weights.engines.base import EngineError, Refused, Serving, Staged, Weights
from drivetrain.weights.fleet import Fleet
from drivetrain.weights.replica import Replica
from drivetrain.weights.service import WeightsService
from drivetrain.weights.settings import TimeoutSettings
from drivetrain.weights.source import Source

Write = Callable[..., Manifest]
LABEL_OF_A_FRESH_VLLM = None


class FakeEngine:
    """A replica in memory. The probe of version n has the logprobs [-1, -n], as the checkpoints of these tests say; an
    adapter over other weights than its own answers something else."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.url = f"http://{name}"
        self.version: int | None = LABEL_OF_A_FRESH_VLLM
        self.adapters: dict[str, int] = {}
        self.in_use: set[str] = set()
        self.paused = False
        self.away = False
        self.refuses = ""
        self.refuses_staging = ""
        self.off_by = 0.0
        self.loads: list[int] = []
        self.staged: list[int] = []
        self.on_load: Callable[[Weights], None] = lambda weights: None

    def restart(self) -> None:
        self.version, self.away, self.paused, self.adapters = LABEL_OF_A_FRESH_VLLM, False, False, {}

    async def serving(self) -> Serving:
        self._answer()
        return Serving(self.version, self.paused, frozenset(self.adapters))

    async def label(self, version: int) -> None:
        self._answer()
        self.version = version

    async def stage(self, weights: Weights) -> Staged:
        self._answer()
        if self.refuses_staging:
            raise Refused(self.refuses_staging)
        self.staged.append(weights.version)
        return Staged(str(weights.folder))

    async def load(self, weights: Weights) -> None:
        self._answer()
        if self.refuses:
            raise Refused(self.refuses)
        if weights.name is None:
            self.version, self.paused = weights.version, False
        else:
            self.adapters[weights.name] = weights.over
        self.loads.append(weights.version)
        self.on_load(weights)

    async def unload(self, adapter: str) -> None:
        self._answer()
        self.adapters.pop(adapter, None)

    async def busy(self) -> frozenset[str]:
        self._answer()
        return frozenset(self.in_use)

    async def logprobs(self, token_ids: Sequence[int], adapter: str | None = None) -> list[float]:
        self._answer()
        version = self.version or 0
        if adapter is not None:
            version = int(adapter.partition("@")[2]) if self.adapters[adapter] == self.version else -1
        return [-1.0, -float(version) - self.off_by]

    async def close(self) -> None:
        """Nothing is open."""

    def _answer(self) -> None:
        if self.away:
            raise EngineError(f"{self.name} cannot be reached")


class Stage:
    """A bus, a store, replicas and the service over them. Time passes only in `sleep`."""

    def __init__(self, store: CheckpointStore, write: Write, names: str = "ab") -> None:
        self.bus = MemoryBus()
        self.write = write
        self.source = Source(store, "main")
        self.engines = [FakeEngine(name) for name in names]
        self.slept: list[float] = []
        self.awaken: Callable[[], None] = lambda: None
        self.time = 0.0
        self.checks: list[Check] = []
        self.max_unavailable = 1
        self.service = self.make()

    def make(self) -> WeightsService:
        """The service, as after a start of its process."""
        self.replicas = [self.replica(engine) for engine in self.engines]
        fleet = Fleet(self.bus, "main", self.replicas, lambda: self.time, max_unavailable=self.max_unavailable)
        return WeightsService(
            self.bus, self.source, fleet, 2.0, lambda: 50.0, self.sleep, unused_s=10.0, checks=self.checks
        )

    def replica(self, engine: FakeEngine) -> Replica:
        return Replica(engine, 1e-3, TimeoutSettings(attempts=3, retry_s=1.0), self.sleep, lambda: self.time)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        self.awaken()
        await asyncio.sleep(0)

    async def start(self) -> None:
        await self.service.recover()
        await self.service.reconcile()

    async def announce(self, version: int, parent: int, digest: str | None = None, **fields: object) -> None:
        """Write a checkpoint, announce it and let the service decide."""
        manifest = self.write(version, parent, **fields)
        self.slept.clear()
        candidate = WeightsCandidate(
            policy="main",
            version=version,
            parent=parent,
            digest=digest or manifest.digest(),
            step=version,
            metrics=manifest.metrics,
            at=1.0,
        )
        await self.bus.publish(candidate)
        await self.decide()

    async def adapter(self, version: int, parent: int, over: int = 0, **fields: object) -> None:
        await self.announce(version, parent, None, kind="adapter", over=over, **fields)

    async def decide(self) -> None:
        async with self.bus.consume(self.service.consumer) as subscription:
            (delivery,) = await subscription.fetch(1, 0.5)
            await self.service.on_candidate(delivery)
            await delivery.ack()

    async def ask_back(self, to: int, number: str = "r1") -> None:
        """Ask for a rollback and let the service act on it, as its loop does."""
        await self.bus.publish(WeightsRollback(policy="main", version=to, id=number, reason="worse", at=1.0))
        async with self.bus.consume(self.service.rollbacks) as subscription:
            (delivery,) = await subscription.fetch(1, 0.5)
            try:
                await self.service.on_rollback(delivery)
            finally:
                await delivery.ack()

    async def rotation(self) -> ReplicaRotation:
        stored = await self.bus.get("REPLICAS", "replica.rotation.main")
        assert stored
        assert isinstance(stored.event, ReplicaRotation)
        return stored.event

    async def rolledback(self) -> list[tuple[int, int, str]]:
        found = [stored.event for stored in await self.bus.last("WEIGHTS", "weights.rolledback.main.*")]
        return [(event.version, event.to, event.reason) for event in found if isinstance(event, WeightsRolledback)]

    async def promoted(self) -> list[WeightsPromoted]:
        found = [stored.event for stored in await self.bus.last("WEIGHTS", "weights.promoted.main.*")]
        return [event for event in found if isinstance(event, WeightsPromoted)]

    async def held(self) -> dict[int, str]:
        found = [stored.event for stored in await self.bus.last("WEIGHTS", "weights.held.main.*")]
        return {event.version: event.reason for event in found if isinstance(event, WeightsHeld)}

    async def loaded(self) -> list[tuple[int, str]]:
        found = [stored.event for stored in await self.bus.last("WEIGHTS", "weights.loaded.main.>")]
        return [(event.version, event.replica) for event in found if isinstance(event, WeightsLoaded)]
