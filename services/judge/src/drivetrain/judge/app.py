"""Wires the judge: sources, chain, bus, and two durable consumers for each shard, one more for rankings."""

import time
from contextlib import AsyncExitStack

import httpx
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from drivetrain.common.bus import connect
from drivetrain.common.bus.base import Bus, Consumer
from drivetrain.common.bus.handling import Gate, handle
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.judge.asking.asker import Asker
from drivetrain.judge.chain import Chain
from drivetrain.judge.endpoint import Endpoint
from drivetrain.judge.judge import Judge
from drivetrain.judge.limits.cache import LocalCache
from drivetrain.judge.limits.shared import Shared, SharedBudget, SharedCache
from drivetrain.judge.meters import Meters
from drivetrain.judge.ranking.ranker import Ranker
from drivetrain.judge.ranking.rankings import Rankings
from drivetrain.judge.rubric import load_rubric
from drivetrain.judge.sessions import Sessions
from drivetrain.judge.settings import JudgeSettings, ModelSettings, OutcomeSettings
from drivetrain.judge.sources.base import Source
from drivetrain.judge.sources.environment import Environment
from drivetrain.judge.sources.feedback import Feedback
from drivetrain.judge.sources.model import ModelJudge
from drivetrain.judge.sources.outcome import Outcome
from drivetrain.judge.sources.reaction import Reaction
from drivetrain.judge.sources.rubric import RubricJudge

MAX_DELIVER = 20
"""A restart gives back what is in work and it counts as delivered; only what brings the judge down gets here."""
REDIS_TIMEOUT_S = 1.0


async def start(lifecycle: Lifecycle, settings: JudgeSettings) -> None:
    """Connect to the bus and judge until the service stops."""
    bus = await connect(settings.bus)
    lifecycle.stack.push_async_callback(bus.close)
    asker = await judge_model(settings.model, lifecycle.stack)
    serve(lifecycle, settings, bus, arranged(settings, asker), asker)


async def sources(settings: JudgeSettings, stack: AsyncExitStack) -> tuple[list[Source], Gate | None]:
    """The sources that the settings ask for, strong to weak, and the gate that a judge model that is down shuts; what
    they opened is closed with the stack."""
    asker = await judge_model(settings.model, stack)
    return arranged(settings, asker), asker.endpoint.breaker if asker is not None else None


async def judge_model(settings: ModelSettings, stack: AsyncExitStack) -> Asker | None:
    """What asks the judge model, None where the settings have none. What it opens is closed with the stack."""
    if not settings.enabled:
        return None
    client = await stack.enter_async_context(httpx.AsyncClient())
    if settings.redis_url is None:
        return Asker(settings, Endpoint(settings, client), LocalCache(settings.cache_size))
    redis = Redis.from_url(
        settings.redis_url.get_secret_value(), socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )  # fmt: skip
    stack.push_async_callback(redis.aclose)
    shared = Shared(redis)
    budget = SharedBudget(shared, settings.model, settings.tokens_per_minute, settings.tokens_per_day)
    return Asker(
        settings, Endpoint(settings, client, budget), SharedCache(shared, settings.cache_size, settings.cache_s)
    )


def arranged(settings: JudgeSettings, asker: Asker | None) -> list[Source]:
    """The sources that the settings ask for, strong to weak.

    Raises:
        BadRubric: a rubric that cannot be used.
    """
    known = rules(settings)
    if asker is not None:
        known.append(ModelJudge(asker))
    if asker is not None and settings.rubrics:
        known.append(RubricJudge(asker, {policy: load_rubric(path) for policy, path in settings.rubrics.items()}))
    by_name = {source.name: source for source in known}
    return [by_name[name] for name in settings.precedence if name in by_name]


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
    lifecycle: Lifecycle, settings: JudgeSettings, bus: Bus, chosen: list[Source], asker: Asker | None = None
) -> None:
    """Spawn the consumers. Any number of replicas share them; a delivery is acked when its score is stored. Nothing is
    pulled while the judge model is down."""
    sessions = Sessions(bus)
    rankings = Rankings(sessions, settings.judge) if settings.ranking.enabled else None
    judge = Judge(settings.judge, Chain(chosen), sessions, Meters(), settings.turn_wait_s, time.time, rankings)
    gate = asker.endpoint.breaker if asker is not None else None
    if gate is not None:
        lifecycle.ready_when("the judge model answers", lambda: not gate.shut)
    for consumer in consumers(settings, bus.shards):
        work = handle(bus, consumer, judge.handle, lifecycle, settings.concurrency, gate)
        lifecycle.spawn(work, consumer.durable)
    if rankings is not None and asker is not None:
        ranker = Ranker(settings.judge, judge, sessions, rankings, asker, settings.ranking.wait_s, time.time)
        ends = rollouts_consumer(settings)
        lifecycle.spawn(handle(bus, ends, ranker.handle, lifecycle, settings.concurrency, gate), ends.durable)


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


def rollouts_consumer(settings: JudgeSettings) -> Consumer:
    """The durable consumer of the ends of rollouts."""
    return Consumer(
        stream="ROLLOUTS",
        durable=f"judge-{settings.judge}-rollouts",
        subjects=("rollout.finished.>",),
        ack_wait_s=settings.ack_wait_s,
        max_deliver=MAX_DELIVER,
        max_ack_pending=max(256, 4 * settings.concurrency),
    )
