"""Reading scores off the bus into the inbox."""

import asyncio

from drivetrain.common.bus import Bus, Consumer, Subscription
from drivetrain.common.events import NewerVersion
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.trainer.advantages import METHODS
from drivetrain.trainer.batches.inbox import Inbox
from drivetrain.trainer.settings.settings import TrainerSettings

ACK_WAIT_S = 30.0
POLL_S = 1.0
MAX_DELIVER = 20
"""A restart hands deliveries back and they count again; only a message that brings the trainer down gets here."""

OPEN_ROLLOUTS = 4096
"""Rollouts of groups that are not complete yet."""

log = get_logger("trainer")


def scores_consumer(settings: TrainerSettings) -> Consumer:
    """Every scored turn of the policy, or every scored rollout, with a place in the stream for each judge that was ever
    listened to; at least four batches, or all open groups, may be open at once."""
    turns = METHODS[settings.method].unit == "turn"
    return Consumer(
        stream="SCORES",
        durable=f"trainer-{settings.policy}-{settings.judge}-{'scores' if turns else 'rollouts'}",
        subjects=(f"turn.scored.*.{settings.policy}.>" if turns else f"rollout.scored.{settings.policy}.>",),
        ack_wait_s=ACK_WAIT_S,
        max_deliver=MAX_DELIVER,
        max_ack_pending=max(256 if turns else OPEN_ROLLOUTS, 4 * settings.batch.size),
    )


async def intake(bus: Bus, settings: TrainerSettings, inbox: Inbox, lifecycle: Lifecycle) -> None:
    """Read scores into the inbox until the service stops. Deliveries stay open until they are trained, so they are
    kept alive here. A score of a newer schema halts the reading and makes the service unready; it is not lost."""
    halted: list[str] = []
    lifecycle.ready_when("SCORES is readable", lambda: not halted)
    keeper = asyncio.create_task(_keep_alive(inbox))
    lifecycle.stack.callback(keeper.cancel)
    async with bus.consume(scores_consumer(settings)) as subscription:
        while not lifecycle.stopping and not halted:
            try:
                await _receive(subscription, inbox, settings.batch.size)
            except NewerVersion as error:
                halted.append(str(error))
                log.critical("scores are not read any more", reason=str(error))


async def _receive(subscription: Subscription, inbox: Inbox, count: int) -> None:
    for delivery in await subscription.fetch(count, POLL_S):
        await inbox.receive(delivery)


async def _keep_alive(inbox: Inbox) -> None:
    while True:
        await asyncio.sleep(ACK_WAIT_S / 3)
        await inbox.keep_alive()
