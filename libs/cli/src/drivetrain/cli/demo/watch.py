"""What the demo sees of the loop: scores and versions, read from the bus as any consumer would."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from drivetrain.cli.demo.corrections import Corrections
from drivetrain.cli.demo.pacing import Gate
from drivetrain.common.bus import Bus, Consumer, Subscription
from drivetrain.common.events import (
    Event,
    TurnFollowed,
    TurnScored,
    WeightsCandidate,
    WeightsHeld,
    WeightsPromoted,
    WeightsRolledback,
)

SEEN = {
    "TURNS": "turn.followed.*.{policy}.>",
    "SCORES": "turn.scored.*.{policy}.>",
    "WEIGHTS": "weights.*.{policy}.>",
}
"""Stream and subjects of what is watched."""


@dataclass(frozen=True)
class Update:
    """A version that was promoted, when (`time.monotonic`), and what the trainer said of it."""

    version: int
    at: float
    metrics: dict[str, float]


@dataclass
class Loop:
    """The state of the learning loop, as told by the bus."""

    version: int = 0
    updates: list[Update] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    unresolved: int = 0
    candidates: dict[int, dict[str, float]] = field(default_factory=dict)

    def metric(self, name: str) -> float | None:
        """The trainer's last word on a metric, None if it never said."""
        known = (metrics[name] for metrics in reversed(self.candidates.values()) if name in metrics)
        return next(known, None)


class Watcher:
    """Folds the bus's events into the loop's state, the pace and the corrections."""

    def __init__(self, loop: Loop, gate: Gate, corrections: Corrections, batch_turns: int) -> None:
        self.loop, self.gate, self._corrections, self._batch_turns = loop, gate, corrections, batch_turns

    async def watch(self, bus: Bus, policy: str, run: str, on_ready: Callable[[], None]) -> None:
        """Follow one policy from now on, until cancelled; `on_ready` is called when nothing can be missed any more."""
        async with AsyncExitStack() as stack:
            subscriptions = [
                await stack.enter_async_context(
                    bus.consume(Consumer(stream, f"demo-{run}", (subject.format(policy=policy),), start_at_new=True))
                )
                for stream, subject in SEEN.items()
            ]
            on_ready()
            async with asyncio.TaskGroup() as group:
                for subscription in subscriptions:
                    group.create_task(self._follow(subscription))

    async def _follow(self, subscription: Subscription) -> None:
        while True:
            for delivery in await subscription.fetch(64, timeout_s=5.0):
                self.apply(delivery.event, time.monotonic())
                await delivery.ack()
            await self.gate.changed()

    def apply(self, event: Event, now: float) -> None:
        """Take in one event, seen at `now`."""
        match event:
            case TurnFollowed() if event.kind == "messages":
                self.gate.pace.followed(event.turn)
            case TurnScored():
                self._scored(event)
            case WeightsCandidate():
                self.loop.candidates[event.version] = event.metrics
            case WeightsPromoted():
                self._promoted(event, now)
            case WeightsHeld():
                self.loop.held.append(f"version {event.version}: {event.reason}")
            case WeightsRolledback():
                self.loop.version = event.to
                self.loop.held.append(f"version {event.version} rolled back: {event.reason}")

    def _scored(self, event: TurnScored) -> None:
        usable = event.trainable and event.reward is not None and (event.reward != 0 or bool(event.hints))
        self.gate.pace.settled(event.turn, usable)
        if event.reward is None:
            self.loop.unresolved += 1
        else:
            self.loop.rewards.append(event.reward)

    def _promoted(self, event: WeightsPromoted, now: float) -> None:
        metrics = self.loop.candidates.get(event.version, {})
        self.loop.version = event.version
        self.loop.updates.append(Update(event.version, now, metrics))
        pace = self.gate.pace
        pace.trained += int(metrics.get("turns", self._batch_turns))
        self._corrections.promoted(pace.trained, now)


async def served_version(bus: Bus, policy: str) -> int:
    """The version promoted last, 0 when there was none yet."""
    promoted = await bus.last("WEIGHTS", f"weights.promoted.{policy}.*")
    return max((stored.event.version for stored in promoted if isinstance(stored.event, WeightsPromoted)), default=0)
