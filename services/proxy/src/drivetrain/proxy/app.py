"""The proxy as a service: its endpoints, and how its parts are wired."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable

import msgspec
from fastapi import APIRouter, FastAPI
from redis.asyncio import Redis
from starlette.requests import Request
from starlette.responses import Response

from drivetrain.common.bus import connect
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.telemetry.admin import Server, listen, uvicorn_config
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.telemetry.traces import trace
from drivetrain.proxy import feedback
from drivetrain.proxy.dialects import openai_chat
from drivetrain.proxy.engines.vllm import Vllm
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.gateway import Gateway, Opened
from drivetrain.proxy.http import CallerLeft, EventStream, body_of, while_connected
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.metrics import REQUESTS
from drivetrain.proxy.recorder import Publisher, Recorder
from drivetrain.proxy.rendering import Rendering
from drivetrain.proxy.sessions import Sessions
from drivetrain.proxy.settings import ProxySettings
from drivetrain.proxy.spool import Spool
from drivetrain.proxy.templates import Template, context_of

_log = get_logger("proxy")
Handler = Callable[[Request], Awaitable[Response]]


class Endpoints:
    """The HTTP endpoints of one policy."""

    def __init__(
        self,
        gateway: Gateway,
        identifier: Identifier,
        sessions: Sessions,
        recorder: Recorder,
        *,
        policy: str,
        limit: int,
    ) -> None:
        self._gateway, self._identifier = gateway, identifier
        self._sessions, self._recorder = sessions, recorder
        self._policy, self._limit = policy, limit
        self._since = int(time.time())

    async def chat(self, request: Request) -> Response:
        """`POST /v1/chat/completions`."""
        caller = self._identifier.caller(request.headers, request.path_params.get("session"), time.time())
        ask = openai_chat.read(await body_of(request, self._limit), self._policy)
        reply, created = self._gateway.reply(caller, ask), int(time.time())
        opened = await while_connected(request.receive, anext(reply))
        assert isinstance(opened, Opened)
        if ask.stream:
            return EventStream(openai_chat.events(reply, ask, self._policy, created, opened))
        document = openai_chat.whole(reply, self._policy, created, opened)
        return _json(await while_connected(request.receive, document))

    async def models(self, request: Request) -> Response:
        """`GET /v1/models`."""
        model = {"id": self._policy, "object": "model", "created": self._since, "owned_by": "drivetrain"}
        return _json(msgspec.json.encode({"object": "list", "data": [model]}))

    async def feedback(self, request: Request) -> Response:
        """`POST /v1/feedback`."""
        now = time.time()
        caller = self._identifier.caller(request.headers, request.path_params.get("session"), now)
        given = feedback.read(await body_of(request, self._limit))
        if given.turn_id:
            known = await self._sessions.turn(given.turn_id)
        else:
            session = self._identifier.session(caller.tenant, given.session) if given.session else caller.session
            if session is None:
                raise Refused(400, "say which reply is meant: response, turn or session", param="response")
            known = await self._sessions.last(session)
        if known is None or known.tenant != caller.tenant or (caller.rollout and known.session != caller.session):
            raise Refused(404, "no such reply is known here", param="response", code="unknown_reply")
        event = feedback.signal(given, known, now)
        if not self._recorder.record(event):
            raise Refused(503, "the feedback could not be stored: try again later", code="not_stored")
        return _json(msgspec.json.encode({"id": event.id, "object": "feedback", "turn": known.turn}))


def build_app(endpoints: Endpoints) -> FastAPI:
    """The endpoints as an ASGI app, with and without a session in the path."""
    app = FastAPI(title="Drivetrain proxy", docs_url=None, redoc_url=None)
    router = APIRouter()
    router.add_api_route("/v1/chat/completions", _answer("chat", endpoints.chat), methods=["POST"])
    router.add_api_route("/v1/feedback", _answer("feedback", endpoints.feedback), methods=["POST"])
    router.add_api_route("/v1/models", _answer("models", endpoints.models), methods=["GET"])
    app.include_router(router)
    app.include_router(router, prefix="/s/{session}", include_in_schema=False)
    app.add_exception_handler(404, _not_found)
    app.add_exception_handler(405, _not_found)
    app.add_exception_handler(Exception, _failed)
    return app


def _answer(endpoint: str, handler: Handler) -> Handler:
    """Count the request, and answer refusals in the dialect's shape."""

    async def answer(request: Request) -> Response:
        with trace(request.headers):
            try:
                response = await handler(request)
            except Refused as error:
                response = _json(openai_chat.error_body(error), error.status)
            except CallerLeft:
                response = Response(status_code=499)
        REQUESTS.labels(endpoint, str(response.status_code)).inc()
        return response

    answer.__name__ = endpoint
    return answer


async def _not_found(request: Request, error: Exception) -> Response:
    return _json(openai_chat.error_body(Refused(404, f"there is no {request.url.path} here", code="not_found")), 404)


async def _failed(request: Request, error: Exception) -> Response:
    """An error of ours: the caller learns that it is one, the log has the traceback."""
    return _json(openai_chat.error_body(Refused(500, "the proxy failed on this request; its log says why")), 500)


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status_code=status, media_type="application/json")


class Context:
    """How many tokens a prompt and its reply may have: as set, as the engine says, or as the model was built."""

    def __init__(self, setting: int, folder: str) -> None:
        self.known = setting > 0
        self.tokens = setting or context_of(folder) or 2048

    async def ask(self, engine: Vllm, every_s: float = 1.0) -> None:
        """Ask the engine until it answers."""
        while not self.known:
            if tokens := await engine.context_tokens():
                self.tokens, self.known = tokens, True
            else:
                await asyncio.sleep(every_s)


async def serve(lifecycle: Lifecycle, settings: ProxySettings) -> None:
    """Wire the proxy and start it; see `drivetrain.common.lifecycle`."""
    secret = settings.secret.get_secret_value().encode()
    rendering = Rendering(
        lambda: Template(settings.model, settings.renderer, settings.tool_parser), settings.thread_chars
    )
    lifecycle.stack.callback(rendering.close)
    spool = Spool(
        settings.spool.folder,
        max_bytes=settings.spool.max_bytes,
        segment_bytes=settings.spool.segment_bytes,
        fsync=settings.spool.fsync,
    )
    lifecycle.stack.callback(spool.close)
    recorder = Recorder(spool)
    bus = await connect(settings.bus)
    lifecycle.stack.push_async_callback(bus.close)
    limits = settings.sessions
    redis = Redis.from_url(limits.redis_url, socket_timeout=limits.timeout_s, socket_connect_timeout=limits.timeout_s)
    lifecycle.stack.push_async_callback(redis.aclose)
    sessions = Sessions(redis, keep_s=limits.keep_s, cached_tokens=limits.cached_tokens)
    waits = settings.engine
    engine = Vllm(waits.urls, connect_s=waits.connect_s, first_byte_s=waits.first_byte_s, stall_s=waits.stall_s)
    lifecycle.stack.push_async_callback(engine.close)
    context = Context(waits.context_tokens, settings.model)
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
    endpoints = Endpoints(
        gateway, identifier, sessions, recorder, policy=settings.policy, limit=settings.max_body_bytes
    )
    lifecycle.ready_when("engine", lambda: context.known)
    lifecycle.spawn(context.ask(engine), "context")
    listener = listen(settings.listen.host, settings.listen.port)
    _log.info("listening", host=settings.listen.host, port=listener.getsockname()[1], policy=settings.policy)
    closed = asyncio.Event()
    lifecycle.spawn(_listen(lifecycle, build_app(endpoints), listener, closed), "listener")
    lifecycle.spawn(_publish(Publisher(recorder, bus), recorder, closed), "publisher")


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
