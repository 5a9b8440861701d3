"""What the bus tells of rollouts: where each stands, and how it ended."""

from collections.abc import AsyncIterator, Iterable

import msgspec

from drivetrain.common.bus.base import Bus
from drivetrain.common.events import (
    Event,
    RolloutCancel,
    RolloutFinished,
    RolloutMoved,
    RolloutRef,
    RolloutRequested,
    RolloutStarted,
)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout. `state` is requested, starting, running, grading, waiting or finished; `at` is when it came to that,
    in unix seconds. What only an end tells is None until then."""

    run: str
    rollout: str
    group: str
    policy: str
    state: str
    attempt: int = 1
    reason: str | None = None
    outcome: float | None = None
    seconds: float | None = None
    detail: str = ""
    at: float

    @property
    def ref(self) -> RolloutRef:
        return RolloutRef(run=self.run, group=self.group, rollout=self.rollout)


async def standings(bus: Bus, run: str = "*") -> list[Standing]:
    """Where every rollout of a run stands, or every one that the bus remembers; in the order of their requests.

    Raises:
        BusError: the bus is away.
    """
    return fold([event async for event in _events(bus, run)])


async def finished(bus: Bus, run: str, rollout: str) -> RolloutFinished | None:
    """The end of one rollout, with its log."""
    stored = await bus.get("ROLLOUTS", f"rollout.finished.{run}.{rollout}")
    return stored.event if stored is not None and isinstance(stored.event, RolloutFinished) else None


async def cancel(bus: Bus, chosen: Iterable[Standing], why: str, at: float) -> int:
    """Ask for the end of those that have not ended; returns how many that are."""
    left = [standing for standing in chosen if standing.state != "finished"]
    for standing in left:
        await bus.publish(RolloutCancel(rollout=standing.ref, detail=why, at=at))
    return len(left)


def fold(events: Iterable[Event]) -> list[Standing]:
    """Where rollouts stand after these events, which are in the order of the stream."""
    found: dict[tuple[str, str], Standing] = {}
    for event in events:
        if isinstance(event, RolloutRequested):
            ref = event.rollout
            found[ref.run, ref.rollout] = Standing(
                run=ref.run, rollout=ref.rollout, group=ref.group, policy=event.policy, state="requested", at=event.at
            )
        elif isinstance(event, RolloutMoved | RolloutFinished):
            key = (event.rollout.run, event.rollout.rollout)
            if key in found and found[key].state != "finished":
                found[key] = _after(found[key], event)
    return list(found.values())


def _after(known: Standing, event: RolloutMoved | RolloutFinished) -> Standing:
    if isinstance(event, RolloutMoved):
        return msgspec.structs.replace(
            known, state=event.state, attempt=event.attempt, detail=event.detail, at=event.at
        )
    return msgspec.structs.replace(
        known,
        state="finished",
        attempt=event.attempts,
        reason=event.reason,
        outcome=event.outcome,
        seconds=event.seconds,
        detail=event.detail,
        at=event.at,
    )


async def _events(bus: Bus, run: str) -> AsyncIterator[Event]:
    async for stored in bus.replay("ROLLOUTS", f"rollout.*.{run}.>"):
        if not isinstance(stored.event, RolloutStarted | RolloutCancel):
            yield stored.event
