"""Wires the judge: sources, chain, bus, and two durable consumers for each shard."""

import time
from contextlib import AsyncExitStack

import httpx

from drivetrain.common.bus import connect
from drivetrain.common.bus.base import Bus, Consumer
from drivetrain.common.bus.handling import Gate, handle
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.judge.chain import Chain
from drivetrain.judge.endpoint import Endpoint
from drivetrain.judge.judge import Judge
from drivetrain.judge.meters import Meters
from drivetrain.judge.sessions import Sessions
from drivetrain.judge.settings import JudgeSettings, OutcomeSettings
from drivetrain.judge.sources.base import Source
from drivetrain.judge.sources.environment import Environment
from drivetrain.judge.sources.feedback import Feedback
from drivetrain.judge.sources.model import ModelJudge
from drivetrain.judge.sources.outcome import Outcome
from drivetrain.judge.sources.reaction import Reaction

MAX_DELIVER = 20
"""A restart gives back what is in work and it counts as delivered; only what brings the judge down gets here."""


async def start(lifecycle: Lifecycle, settings: JudgeSettings) -> None:
    """Connect to the bus and judge until the service stops."""
    bus = await connect(settings.bus)
    lifecycle.stack.push_async_callback(bus.close)
    chosen, gate = await sources(settings, lifecycle.stack)
    serve(lifecycle, settings, bus, chosen, gate)


async def sources(settings: JudgeSettings, stack: AsyncExitStack) -> tuple[list[Source], Gate | None]:
    """The sources that the settings ask for, strong to weak, and the gate that a judge model that is down shuts; what
    they opened is closed with the stack."""
    known = rules(settings)
    gate: Gate | None = None
    if settings.model.enabled:
        endpoint = Endpoint(settings.model, await stack.enter_async_context(httpx.AsyncClient()))
        known.append(ModelJudge(settings.model, endpoint))
        gate = endpoint.breaker
    by_name = {source.name: source for source in known}
    return [by_name[name] for name in settings.precedence if name in by_name], gate


def rules(settings: JudgeSettings) -> list[Source]:
    """The sources that need nothing but the case."""
    return [Feedback(), outcome(settings.outcome), Environment(settings.environment.recovery), Reaction()]


def outcome(settings: OutcomeSettings) -> Outcome:
    """The source of outcomes, which credits turns as the settings say."""
    return Outcome(
        gamma=settings.gamma if settings.credit == "discounted" else 1.0,
        coef=settings.coef if settings.credit == "step" else 0.0,
    )


def serve(
    lifecycle: Lifecycle, settings: JudgeSettings, bus: Bus, chosen: list[Source], gate: Gate | None = None
) -> None:
    """Spawn the consumers. Any number of replicas share them; a delivery is acked when its score is stored. Nothing is
    pulled while the gate is shut."""
    judge = Judge(settings.judge, Chain(chosen), Sessions(bus), Meters(), settings.turn_wait_s, time.time)
    if gate is not None:
        lifecycle.ready_when("the judge model answers", lambda: not gate.shut)
    for consumer in consumers(settings, bus.shards):
        work = handle(bus, consumer, judge.handle, lifecycle, settings.concurrency, gate)
        lifecycle.spawn(work, consumer.durable)


def consumers(settings: JudgeSettings, shards: int) -> list[Consumer]:
    """One durable consumer of next states and one of signals for each shard, named after the judge's id."""
    return [
        Consumer(
            stream=stream,
            durable=f"judge-{settings.judge}-{stream.lower()}-{shard}",
            subjects=(pattern.format(shard=shard),),
            ack_wait_s=settings.ack_wait_s,
            max_deliver=MAX_DELIVER,
            max_ack_pending=max(256, 4 * settings.concurrency),
        )
        for shard in range(shards)
        for stream, pattern in (("TURNS", "turn.followed.{shard}.>"), ("SIGNALS", "signal.*.{shard}.>"))
    ]
