"""Requests rollouts and follows them to their ends."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from nats.aio.msg import Msg

from drivetrain.cli.errors import CliError
from drivetrain.common.bus.nats import NatsBus
from drivetrain.common.events import (
    DeadLetter,
    Event,
    RolloutFinished,
    RolloutMoved,
    RolloutRef,
    RolloutRequested,
    RolloutStarted,
    decode,
    event_type,
)

Task = dict[str, object]
KINDS = ("started", "moved", "finished")


def group_requests(
    tasks: Sequence[Task], policy: str, run: str, count: int, timeout_s: float, at: float
) -> list[RolloutRequested]:
    """A group for each task: the same task `count` times. Rollouts are numbered through the whole run."""
    return [
        RolloutRequested(
            rollout=RolloutRef(run=run, group=str(group), rollout=str((group - 1) * count + number), group_size=count),
            policy=policy,
            task=task,
            timeout_s=timeout_s,
            at=at,
        )
        for group, task in enumerate(tasks, start=1)
        for number in range(1, count + 1)
    ]


async def follow(bus: NatsBus, requests: Sequence[RolloutRequested], patience_s: float) -> AsyncIterator[Event]:
    """Publish the requests of one run and yield what happens to them, until each has finished or is dead-lettered.

    Raises:
        CliError: nothing happened for `patience_s` seconds.
    """
    run = requests[0].rollout.run
    open_subjects = {request.subject(bus.shards) for request in requests}
    async with _listen(bus, [f"rollout.{kind}.{run}.>" for kind in KINDS] + ["dead.ROLLOUTS.>"]) as inbox:
        for request in requests:
            await bus.publish(request)
        while open_subjects:
            try:
                message = await asyncio.wait_for(inbox.get(), timeout=patience_s)
            except TimeoutError:
                raise CliError(
                    f"{len(open_subjects)} rollouts of run {run} gave no sign for {patience_s:.0f} s: "
                    "is the orchestrator running (`drivetrain status`)?"
                ) from None
            event = await _read(bus, message)
            if request_subject(event) in open_subjects:
                if not isinstance(event, RolloutStarted | RolloutMoved):
                    open_subjects.discard(request_subject(event))
                yield event


def request_subject(event: Event) -> str:
    """The subject of the request that an event belongs to."""
    match event:
        case DeadLetter():
            return event.subject_of
        case RolloutStarted() | RolloutMoved() | RolloutFinished():
            return f"{RolloutRequested.PREFIX}.{event.rollout.run}.{event.rollout.rollout}"
    raise TypeError(f"{type(event).__name__} belongs to no rollout")


async def _read(bus: NatsBus, message: Msg) -> Event:
    payload = await bus.payload_of(message.data, message.headers or {})
    return decode(payload, event_type(message.subject))


@asynccontextmanager
async def _listen(bus: NatsBus, subjects: Sequence[str]) -> AsyncIterator["asyncio.Queue[Msg]"]:
    """Messages as they are stored from now on; a plain subscription sees them without a consumer."""
    inbox: asyncio.Queue[Msg] = asyncio.Queue()
    subscriptions = [await bus.client.subscribe(subject, cb=inbox.put) for subject in subjects]
    await bus.client.flush()
    try:
        yield inbox
    finally:
        for subscription in subscriptions:
            await subscription.unsubscribe()
