"""Wires the judge: sources, chain, bus, and two durable consumers for each shard."""

import time

import httpx

from drivetrain.common.bus import connect
from drivetrain.common.bus.base import Bus, Consumer
from drivetrain.common.bus.handling import handle
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.judge.chain import Chain
from drivetrain.judge.judge import Judge
from drivetrain.judge.meters import Meters
from drivetrain.judge.sessions import Sessions
from drivetrain.judge.settings import JudgeSettings
from drivetrain.judge.sources.base import Source
from drivetrain.judge.sources.environment import Environment
from drivetrain.judge.sources.feedback import Feedback
from drivetrain.judge.sources.model import ModelJudge
from drivetrain.judge.sources.outcome import Outcome
from drivetrain.judge.sources.reaction import Reaction


async def start(lifecycle: Lifecycle, settings: JudgeSettings) -> None:
    """Connect to the bus and judge until the service stops."""
    bus = await connect(settings.bus)
    lifecycle.stack.push_async_callback(bus.close)
    client = await lifecycle.stack.enter_async_context(httpx.AsyncClient())
    serve(lifecycle, settings, bus, sources(settings, client))


def sources(settings: JudgeSettings, client: httpx.AsyncClient) -> list[Source]:
    """The sources that the settings ask for: the rules always, the model if it is enabled."""
    rules: list[Source] = [Feedback(), Outcome(), Environment(), Reaction()]
    return [*rules, ModelJudge(settings.model, client)] if settings.model.enabled else rules


def serve(lifecycle: Lifecycle, settings: JudgeSettings, bus: Bus, chosen: list[Source]) -> None:
    """Spawn the consumers. Any number of replicas share them; a delivery is acked when its score is stored."""
    judge = Judge(settings.judge, Chain(chosen), Sessions(bus), Meters(), settings.turn_wait_s, time.time)
    for consumer in consumers(settings, bus.shards):
        work = handle(bus, consumer, judge.handle, lifecycle, settings.concurrency)
        lifecycle.spawn(work, consumer.durable)


def consumers(settings: JudgeSettings, shards: int) -> list[Consumer]:
    """One durable consumer of next states and one of signals for each shard, named after the judge's id."""
    return [
        Consumer(
            stream=stream,
            durable=f"judge-{settings.judge}-{stream.lower()}-{shard}",
            subjects=(pattern.format(shard=shard),),
            ack_wait_s=settings.ack_wait_s,
            max_ack_pending=max(256, 4 * settings.concurrency),
        )
        for shard in range(shards)
        for stream, pattern in (("TURNS", "turn.followed.{shard}.>"), ("SIGNALS", "signal.*.{shard}.>"))
    ]
