"""The proxy as a service: how its parts are wired, started and drained."""

import asyncio
import socket
from collections.abc import Callable, Mapping

from fastapi import FastAPI

from drivetrain.common.bus import Bus
from drivetrain.common.bus import connect as connect_bus
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.telemetry.admin import Server, listen, uvicorn_config
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.access.keys import Keys
from drivetrain.proxy.endpoints import Endpoints
from drivetrain.proxy.engines.vllm import Vllm
from drivetrain.proxy.gateway import Gateway
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.publisher import Publisher
from drivetrain.proxy.recorder import Recorder
from drivetrain.proxy.rendering import Rendering
from drivetrain.proxy.routing.admission import Limits
from drivetrain.proxy.routing.pool import Pool
from drivetrain.proxy.server import build_app
from drivetrain.proxy.sessions import Closer, History, Index, Rebuilder, Sessions
from drivetrain.proxy.sessions import connect as connect_redis
from drivetrain.proxy.settings import PolicySettings, ProxySettings, RoutingSettings, SessionSettings, SpoolSettings
from drivetrain.proxy.spool import Spool
from drivetrain.proxy.templates import Template, context_of

PROBES = 2
"""Connections to a replica beside those of its requests."""

IDLE_EVERY_S = 5.0
"""How often idle deadlines are looked at, at the least."""

_log = get_logger("proxy")


async def serve(lifecycle: Lifecycle, settings: ProxySettings) -> None:
    """Wire the proxy and start it; see `drivetrain.common.lifecycle`."""
    listening = asyncio.Event()
    lifecycle.ready_when("listener", listening.is_set)
    recorder = _recorder(lifecycle, settings.spool)
    bus = await connect_bus(settings.bus)
    lifecycle.stack.push_async_callback(bus.close)
    sessions = _sessions(lifecycle, settings.sessions, bus, recorder)
    vllm = _vllm(lifecycle, settings)
    pools = {name: _pool(name, policy, settings.routing, vllm, bus) for name, policy in settings.served.items()}
    lifecycle.ready_when("engine", lambda: any(pool.ready for pool in pools.values()))
    endpoints = _endpoints(lifecycle, settings, pools, recorder, sessions)
    for name, pool in pools.items():
        lifecycle.spawn(pool.run(lambda: lifecycle.stopping), f"replicas of {name}")
    listener = listen(settings.listen.host, settings.listen.port)
    _log.info("listening", host=settings.listen.host, port=listener.getsockname()[1], policies=sorted(pools))
    listening.set()
    closed = asyncio.Event()
    lifecycle.spawn(_listen(lifecycle, build_app(endpoints), listener, closed), "listener")
    lifecycle.spawn(_publish(Publisher(recorder, bus), recorder, closed), "publisher")


def _recorder(lifecycle: Lifecycle, settings: SpoolSettings) -> Recorder:
    spool = Spool(
        settings.folder, max_bytes=settings.max_bytes, segment_bytes=settings.segment_bytes, fsync=settings.fsync
    )
    lifecycle.stack.callback(spool.close)
    return Recorder(spool)


def _sessions(lifecycle: Lifecycle, settings: SessionSettings, bus: Bus, recorder: Recorder) -> Sessions:
    """The session index, watched over, and its idle deadlines."""
    redis = connect_redis(settings.redis_url, settings.timeout_s)
    lifecycle.stack.push_async_callback(redis.aclose)
    index = Index(redis, keep_s=settings.keep_s)
    sessions = Sessions(index, History(bus), cache_bytes=settings.cache_bytes, idle_s=settings.idle_s)
    rebuilder = Rebuilder(sessions, index, bus, idle_s=settings.idle_s, keep_s=settings.keep_s)
    lifecycle.ready_when("session index", lambda: rebuilder.looked)
    lifecycle.spawn(rebuilder.run(lambda: lifecycle.stopping), "session index")
    closer = Closer(sessions, index, recorder.record, every_s=min(settings.idle_s / 10, IDLE_EVERY_S))
    lifecycle.spawn(closer.run(lambda: lifecycle.stopping), "idle turns")
    return sessions


def _vllm(lifecycle: Lifecycle, settings: ProxySettings) -> Vllm:
    waits = settings.engine
    replicas = sum(len(policy.urls) for policy in settings.served.values())
    vllm = Vllm(
        connect_s=waits.connect_s,
        first_byte_s=waits.first_byte_s,
        stall_s=waits.stall_s,
        connections=replicas * (settings.routing.max_in_flight + PROBES),
    )
    lifecycle.stack.push_async_callback(vllm.close)
    return vllm


def _pool(name: str, policy: PolicySettings, routing: RoutingSettings, vllm: Vllm, bus: Bus) -> Pool:
    limits = Limits(
        max_in_flight=routing.max_in_flight,
        queue_s=routing.queue_s,
        max_queued=routing.max_queued,
        max_lead=routing.max_lead,
        max_lag=routing.max_lag,
        max_staleness=routing.max_staleness,
    )
    return Pool(name, policy.urls, vllm, bus, limits, probe_s=routing.probe_s)


def _endpoints(
    lifecycle: Lifecycle, settings: ProxySettings, pools: Mapping[str, Pool], recorder: Recorder, sessions: Sessions
) -> Endpoints:
    secret = settings.secret.get_secret_value().encode()
    gateways = {
        name: Gateway(
            engine=pools[name].engine,
            rendering=_rendering(lifecycle, policy, settings.thread_chars),
            sessions=sessions,
            recorder=recorder,
            secret=secret,
            context_tokens=_context(policy, pools[name]),
            rollout_temperature=settings.rollout_temperature,
        )
        for name, policy in settings.served.items()
    }
    identifier = Identifier(secret, settings.consent)
    return Endpoints(gateways, Keys(secret), identifier, sessions, recorder, limit=settings.max_body_bytes)


def _rendering(lifecycle: Lifecycle, policy: PolicySettings, thread_chars: int) -> Rendering:
    rendering = Rendering(Template(policy.model, policy.renderer, policy.tool_parser), thread_chars)
    lifecycle.stack.callback(rendering.close)
    return rendering


def _context(policy: PolicySettings, pool: Pool) -> Callable[[], int]:
    """How many tokens a prompt and its reply may have: as set, as the engine says, or as the model was built."""
    built = context_of(policy.model) or 2048
    return lambda: policy.context_tokens or pool.context_tokens or built


async def _listen(lifecycle: Lifecycle, app: FastAPI, listener: socket.socket, closed: asyncio.Event) -> None:
    """Serve until the service stops; replies in progress may end."""
    server = Server(uvicorn_config(app))
    serving = asyncio.create_task(server.serve_on(listener))
    stopped = asyncio.create_task(lifecycle.until_stopped())
    await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    server.should_exit = True
    try:
        await serving
    finally:
        closed.set()


async def _publish(publisher: Publisher, recorder: Recorder, closed: asyncio.Event) -> None:
    """Publish while replies can still come, and then what is left."""
    publishing = asyncio.create_task(publisher.run(closed.is_set))
    try:
        waiting = asyncio.create_task(closed.wait())
        await asyncio.wait((publishing, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        recorder.written.set()
        await publishing
    finally:
        publishing.cancel()
