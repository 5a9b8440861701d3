"""A whole proxy in this process, on a bus in memory and a real Valkey, for tests over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from drivetrain.common.bus import MemoryBus
from drivetrain.common.events import Event, TurnFollowed, TurnRecorded
from drivetrain.common.telemetry.admin import Server, listen, uvicorn_config
from drivetrain.proxy.access.bounds import Bounds
from drivetrain.proxy.access.door import Door
from drivetrain.proxy.access.keys import Keys
from drivetrain.proxy.access.rates import Rates
from drivetrain.proxy.access.redaction import Reader, Redaction
from drivetrain.proxy.api.endpoints import Endpoints
from drivetrain.proxy.api.server import build_app
from drivetrain.proxy.engines.vllm import Vllm
from drivetrain.proxy.gateway import Gateway
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.prompts.rendering import Rendering
from drivetrain.proxy.prompts.templates import Template
from drivetrain.proxy.recording.publisher import Publisher
from drivetrain.proxy.recording.recorder import Recorder
from drivetrain.proxy.recording.spool import Spool
from drivetrain.proxy.routing.admission import Limits
from drivetrain.proxy.routing.pool import Pool
from drivetrain.proxy.sessions import Closer, History, Index, Rebuilder, Sessions, connect

SECRET = b"a secret of the tests"


@dataclass
class Proxy:
    """A proxy that listens on loopback, and everything it tells the bus."""

    url: str
    bus: MemoryBus
    publisher: Publisher
    recorder: Recorder
    sessions: Sessions
    rendering: Rendering
    redis: Redis
    index: Index
    rebuilder: Rebuilder
    closer: Closer

    async def events(self) -> list[Event]:
        """All events of turns and signals so far, in order, after the spool is empty."""
        while self.recorder.spool.backlog_bytes:
            self.publisher.idle.clear()
            self.recorder.written.set()
            await self.publisher.idle.wait()
        turns = await self.bus.last("TURNS", "turn.>")
        return [stored.event for stored in [*turns, *await self.bus.last("SIGNALS", "signal.>")]]

    async def next_turn(self) -> TurnRecorded:
        """The first recorded turn, as soon as it is on the bus."""
        async with asyncio.timeout(5):
            while not (turns := await self.recorded()):
                self.bus.changed.clear()
                await self.bus.changed.wait()
        return turns[0]

    async def recorded(self) -> list[TurnRecorded]:
        return [event for event in await self.events() if isinstance(event, TurnRecorded)]

    async def followed(self) -> list[TurnFollowed]:
        return [event for event in await self.events() if isinstance(event, TurnFollowed)]


@asynccontextmanager
async def served(
    replicas: Sequence[str],
    *,
    model: Path | Template,
    redis_url: str,
    prefix: str,
    spool: Path,
    bus: MemoryBus | None = None,
    policies: Mapping[str, Sequence[str]] | None = None,
    patterns: Mapping[str, str] | None = None,
    limits: Mapping[str, Any] | None = None,
    bounds: Mapping[str, Any] | None = None,
    keys: Path | None = None,
    thread_chars: int = 10_000,
    cache_bytes: int = 1 << 24,
    context_tokens: int = 2000,
    idle_s: float = 600,
    stall_s: float = 20,
) -> AsyncIterator[Proxy]:
    """A proxy that serves the policy `default` from these replicas, and other `policies` from theirs. Proxies of one
    `prefix` share a session index."""
    bus = bus or MemoryBus()
    async with AsyncExitStack() as stack:
        rendering = Rendering(model if isinstance(model, Template) else Template(str(model)), thread_chars)
        stack.callback(rendering.close)
        names = {"default": replicas, **(policies or {})}
        readers = dict.fromkeys(names, Reader(rendering.template.tokenizer.backend_tokenizer))
        redaction = Redaction(patterns or {}, readers)
        stack.callback(redaction.close)
        recorder = Recorder(Spool(spool), redaction.beside if patterns else None)
        stack.callback(recorder.spool.close)
        redis = connect(redis_url, 0.5)
        stack.push_async_callback(redis.aclose)
        index = Index(redis, keep_s=600, prefix=prefix)
        sessions = Sessions(index, History(bus), cache_bytes=cache_bytes, idle_s=idle_s)
        vllm = Vllm(connect_s=2, stall_s=stall_s)
        stack.push_async_callback(vllm.close)
        limited = Limits(**(limits or {}))
        pools = {name: Pool(name, urls, vllm, bus, limited, probe_s=0.1) for name, urls in names.items()}
        await asyncio.gather(*(pool.look() for pool in pools.values()))
        for pool in pools.values():
            stack.push_async_callback(_end, asyncio.create_task(pool.run(lambda: False)))
        gateways = {
            name: Gateway(
                engine=pool.engine,
                rendering=rendering,
                sessions=sessions,
                recorder=recorder,
                secret=SECRET,
                context_tokens=lambda: context_tokens,
            )
            for name, pool in pools.items()
        }
        door = Door(
            Keys(SECRET, keys), Rates(redis, prefix=prefix), Bounds(**{"body_bytes": 100_000, **(bounds or {})})
        )
        endpoints = Endpoints(gateways, door, Identifier(SECRET, "train"), sessions, recorder)
        publisher = Publisher(recorder, bus, sessions.take_over, retry_s=(0.01, 0.05))
        stack.push_async_callback(_end, asyncio.create_task(publisher.run()))
        listener, server = listen("127.0.0.1", 0), Server(uvicorn_config(build_app(endpoints)))
        stack.push_async_callback(_stop, server, asyncio.create_task(server.serve_on(listener)))
        rebuilder = Rebuilder(sessions, index, bus, idle_s=idle_s, keep_s=600)
        closer = Closer(sessions, index, recorder.record, every_s=1)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield Proxy(url, bus, publisher, recorder, sessions, rendering, redis, index, rebuilder, closer)


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait((task,))


async def _stop(server: Server, serving: Awaitable[None]) -> None:
    server.should_exit = True
    await serving
