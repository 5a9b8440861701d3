"""The proxy as a service: how its parts are wired, started and drained."""

import asyncio
from collections.abc import Mapping

from redis.asyncio import Redis

from drivetrain.common.bus import Bus
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.settings import BusSettings
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy import policies
from drivetrain.proxy.access.bounds import Bounds
from drivetrain.proxy.access.door import Door
from drivetrain.proxy.access.keys import Keys
from drivetrain.proxy.access.protocol import Patience
from drivetrain.proxy.access.rates import Rates
from drivetrain.proxy.access.redaction import Reader, Redaction
from drivetrain.proxy.access.rollouts import RolloutSockets
from drivetrain.proxy.api.endpoints import Endpoints
from drivetrain.proxy.api.listeners import Listeners
from drivetrain.proxy.api.server import add_sockets, build_app
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.late_bus import LateBus
from drivetrain.proxy.prompts.rendering import Rendering
from drivetrain.proxy.recording.publisher import Publisher
from drivetrain.proxy.recording.recorder import Recorder
from drivetrain.proxy.recording.spool import Spool
from drivetrain.proxy.sessions import Closer, History, Index, Rebuilder, Sessions
from drivetrain.proxy.sessions import connect as connect_redis
from drivetrain.proxy.settings import ProxySettings, SessionSettings

FIRST_LOOK_S = 5.0
"""How long a start waits for the bus before it goes on without."""

IDLE_EVERY_S = 1.0
"""How often idle deadlines are looked at, at the least."""

_log = get_logger("proxy")


async def serve(lifecycle: Lifecycle, settings: ProxySettings) -> None:
    """Wire the proxy and start it; see `drivetrain.common.lifecycle`."""
    listening = asyncio.Event()
    lifecycle.ready_when("listener", listening.is_set)
    if settings.access.keys is None:
        _log.warning("no API keys are set: whoever reaches this service may use it", beyond=settings.listen.beyond)
    renderings = policies.renderings(lifecycle, settings)
    recorder = _recorder(lifecycle, settings, renderings)
    bus = await _bus(lifecycle, settings.bus)
    redis = connect_redis(settings.sessions.redis_url, settings.sessions.timeout_s)
    lifecycle.stack.push_async_callback(redis.aclose)
    sessions = _sessions(lifecycle, settings.sessions, redis, bus, recorder)
    pools = policies.pools(lifecycle, settings, bus)
    gateways = policies.gateways(settings, renderings, pools, sessions, recorder)
    for gateway in gateways.values():
        lifecycle.stack.push_async_callback(gateway.settled)
    door = _door(settings, redis)
    identifier = Identifier(settings.secret.get_secret_value().encode(), settings.consent)
    endpoints = Endpoints(gateways, door, identifier, sessions, recorder)
    listeners = _listeners(lifecycle, settings, endpoints, door)
    _log.info("listening", at=listeners.addresses, policies=sorted(pools))
    closed = asyncio.Event()
    lifecycle.spawn(_listen(lifecycle, listeners, listening, closed), "listener")
    lifecycle.spawn(_publish(Publisher(recorder, bus, sessions.take_over), recorder, closed), "publisher")


async def _bus(lifecycle: Lifecycle, settings: BusSettings) -> LateBus:
    """The bus, which people need not wait for: what is recorded lies in the spool meanwhile."""
    bus = LateBus(settings)
    lifecycle.stack.push_async_callback(bus.close)
    lifecycle.does_without("bus", lambda: bus.here)
    await bus.look(FIRST_LOOK_S)
    lifecycle.spawn(bus.run(lifecycle.until_stopped), "bus")
    return bus


def _recorder(lifecycle: Lifecycle, settings: ProxySettings, renderings: Mapping[str, Rendering]) -> Recorder:
    """What writes events to the log, secrets masked."""
    log = settings.spool
    spool = Spool(log.folder, max_bytes=log.max_bytes, segment_bytes=log.segment_bytes, fsync=log.fsync)
    lifecycle.stack.callback(spool.close)
    readers = {name: Reader(each.template.tokenizer.backend_tokenizer) for name, each in renderings.items()}
    patterns = settings.redaction.chosen
    if not patterns:
        return Recorder(spool)
    redaction = Redaction(patterns, readers)
    lifecycle.stack.callback(redaction.close)
    return Recorder(spool, redaction.beside)


def _door(settings: ProxySettings, redis: Redis) -> Door:
    """Who may come in, and with what."""
    limits = settings.limits
    keys = Keys(settings.secret.get_secret_value().encode(), settings.access.keys)
    bounds = Bounds(
        body_bytes=settings.max_body_bytes,
        body_s=limits.body_s,
        messages=limits.messages,
        depth=limits.depth,
        server_tools=limits.server_tools,
    )
    return Door(keys, Rates(redis), bounds)


def _sessions(lifecycle: Lifecycle, settings: SessionSettings, redis: Redis, bus: Bus, recorder: Recorder) -> Sessions:
    """The session index, watched over, and its idle deadlines."""
    index = Index(redis, keep_s=settings.keep_s)
    sessions = Sessions(index, History(bus), cache_bytes=settings.cache_bytes, idle_s=settings.idle_s)
    rebuilder = Rebuilder(sessions, index, bus, idle_s=settings.idle_s, keep_s=settings.keep_s)
    lifecycle.ready_when("session index", lambda: rebuilder.looked)
    lifecycle.does_without("redis", lambda: index.here)
    lifecycle.spawn(rebuilder.run(lambda: lifecycle.stopping), "session index")
    closer = Closer(sessions, index, recorder.record, every_s=min(settings.idle_s / 10, IDLE_EVERY_S))
    lifecycle.spawn(closer.run(lambda: lifecycle.stopping), "idle turns")
    return sessions


def _listeners(lifecycle: Lifecycle, settings: ProxySettings, endpoints: Endpoints, door: Door) -> Listeners:
    """Where the endpoints are reached."""
    app, where, limits = build_app(endpoints), settings.listen, settings.limits
    patience = Patience(
        head_bytes=limits.head_bytes, head_s=limits.head_s, body_s=limits.body_s, unread_s=limits.unread_s
    )
    listeners = Listeners(app, where, patience)
    lifecycle.stack.callback(listeners.close)
    if where.rollouts is not None:
        secret = settings.secret.get_secret_value().encode()
        sockets = RolloutSockets(listeners, app, secret, where.rollouts, where.mode)
        lifecycle.stack.callback(sockets.close_all)
        add_sockets(app, door, sockets)
    return listeners


async def _listen(lifecycle: Lifecycle, listeners: Listeners, listening: asyncio.Event, closed: asyncio.Event) -> None:
    """Serve until the service stops; replies in progress may end."""
    serving = asyncio.create_task(listeners.serve(listening.set))
    stopped = asyncio.create_task(lifecycle.until_stopped())
    await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    listeners.stop()
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
