"""The proxy as a service: how its parts are wired, started and drained."""

import asyncio
import socket
from collections.abc import Callable

from fastapi import FastAPI
from redis.asyncio import Redis

from drivetrain.common.bus import connect as connect_bus
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.telemetry.admin import Server, listen, uvicorn_config
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.endpoints import Endpoints, build_app
from drivetrain.proxy.engines.vllm import Vllm
from drivetrain.proxy.gateway import Gateway
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.recorder import Publisher, Recorder
from drivetrain.proxy.rendering import Rendering
from drivetrain.proxy.sessions import Sessions
from drivetrain.proxy.sessions import connect as connect_redis
from drivetrain.proxy.settings import ProxySettings, SpoolSettings
from drivetrain.proxy.spool import Spool
from drivetrain.proxy.templates import Template, context_of

_log = get_logger("proxy")


class Context:
    """How many tokens a prompt and its reply may have: as set, as the engine says, or as the model was built."""

    def __init__(self, setting: int, folder: str) -> None:
        self.known = setting > 0
        self.tokens = setting or context_of(folder) or 2048

    async def ask(self, engine: Vllm, stopping: Callable[[], bool], every_s: float = 1.0) -> None:
        """Ask the engine until it answers or the service stops."""
        while not self.known and not stopping():
            if tokens := await engine.context_tokens():
                self.tokens, self.known = tokens, True
            else:
                await asyncio.sleep(every_s)


async def serve(lifecycle: Lifecycle, settings: ProxySettings) -> None:
    """Wire the proxy and start it; see `drivetrain.common.lifecycle`."""
    context, listening = Context(settings.engine.context_tokens, settings.model), asyncio.Event()
    lifecycle.ready_when("listener", listening.is_set)
    lifecycle.ready_when("engine", lambda: context.known)
    rendering = Rendering(
        lambda: Template(settings.model, settings.renderer, settings.tool_parser), settings.thread_chars
    )
    lifecycle.stack.callback(rendering.close)
    recorder = _recorder(lifecycle, settings.spool)
    bus = await connect_bus(settings.bus)
    lifecycle.stack.push_async_callback(bus.close)
    redis = connect_redis(settings.sessions.redis_url, settings.sessions.timeout_s)
    lifecycle.stack.push_async_callback(redis.aclose)
    waits = settings.engine
    engine = Vllm(waits.urls, connect_s=waits.connect_s, first_byte_s=waits.first_byte_s, stall_s=waits.stall_s)
    lifecycle.stack.push_async_callback(engine.close)
    endpoints = _endpoints(settings, engine, rendering, recorder, redis, context)
    lifecycle.spawn(context.ask(engine, lambda: lifecycle.stopping), "context")
    listener = listen(settings.listen.host, settings.listen.port)
    _log.info("listening", host=settings.listen.host, port=listener.getsockname()[1], policy=settings.policy)
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


def _endpoints(
    settings: ProxySettings, engine: Vllm, rendering: Rendering, recorder: Recorder, redis: Redis, context: Context
) -> Endpoints:
    secret, index = settings.secret.get_secret_value().encode(), settings.sessions
    sessions = Sessions(redis, keep_s=index.keep_s, cached_tokens=index.cached_tokens)
    gateway = Gateway(
        engine=engine,
        rendering=rendering,
        sessions=sessions,
        recorder=recorder,
        secret=secret,
        context_tokens=lambda: context.tokens,
        rollout_temperature=settings.rollout_temperature,
    )
    identifier = Identifier(secret, settings.policy, settings.consent)
    return Endpoints(gateway, identifier, sessions, recorder, policy=settings.policy, limit=settings.max_body_bytes)


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
