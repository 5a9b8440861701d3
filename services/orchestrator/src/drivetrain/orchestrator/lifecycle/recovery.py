"""What an earlier life of the orchestrator left to do, read from the bus: nothing else remembers it."""

import asyncio
from collections.abc import AsyncIterator

from drivetrain.common.bus.base import Bus, Stored
from drivetrain.common.events import RolloutMoved, RolloutRequested, RolloutStarted, Signal
from drivetrain.orchestrator.lifecycle.waiting import Job

HORIZON_S = 7 * 86_400.0
"""How far back requests are looked for."""
TOGETHER = 64


async def unfinished(bus: Bus, now: float, outlives: bool) -> AsyncIterator[Job]:
    """Every requested rollout that has not finished, as it is to go on; see `resumed`.

    Raises:
        BusError: the bus is away.
    """
    batch: list[Stored] = []
    async for stored in bus.replay("ROLLOUTS", "rollout.requested.>", since=now - HORIZON_S):
        batch.append(stored)
        if len(batch) == TOGETHER:
            for job in await _jobs(bus, batch, outlives):
                yield job
            batch = []
    for job in await _jobs(bus, batch, outlives):
        yield job


async def resumed(bus: Bus, request: RolloutRequested, outlives: bool) -> Job | None:
    """How a request is to go on; None if it has finished. An attempt that was under way is over with the life that made
    it, so that the next one follows; unless its sandbox `outlives` that, and is found again."""
    name = f"{request.rollout.run}.{request.rollout.rollout}"
    if await bus.get("ROLLOUTS", f"rollout.finished.{name}") is not None:
        return None
    started = await bus.get("ROLLOUTS", f"rollout.started.{name}")
    if started is None:
        return Job(request)
    assert isinstance(started.event, RolloutStarted)
    moves = [stored.event for stored in await bus.last("ROLLOUTS", f"rollout.moved.{name}.>")]
    known = [move for move in moves if isinstance(move, RolloutMoved)]
    last = max((move.attempt for move in known), default=0)
    waits = any(move.attempt == last and move.state == "waiting" for move in known)
    session = next((move.session for move in known if move.attempt == last), started.event.session)
    told = await _told(bus, request, session)
    stays = told is not None or (outlives and last > 0 and not waits)
    return Job(request, started.event.at, max(1, last) if stays else last + 1, started=True, told=told)


async def _told(bus: Bus, request: RolloutRequested, session: str) -> Signal | None:
    """The outcome that was stored just before the death: it stands."""
    stored = await bus.get("SIGNALS", f"signal.outcome.*.{request.policy}.{session}.{request.rollout.rollout}")
    return stored.event if stored is not None and isinstance(stored.event, Signal) else None


async def _jobs(bus: Bus, batch: list[Stored], outlives: bool) -> list[Job]:
    requests = [stored.event for stored in batch if isinstance(stored.event, RolloutRequested)]
    found = await asyncio.gather(*(resumed(bus, request, outlives) for request in requests))
    return [job for job in found if job is not None]
