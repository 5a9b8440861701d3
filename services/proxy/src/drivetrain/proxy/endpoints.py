"""The HTTP endpoints of one policy, and the refusals in the shape that their callers know."""

import time
from collections.abc import Awaitable, Callable

import msgspec
from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response

from drivetrain.common.telemetry.traces import trace
from drivetrain.proxy import feedback
from drivetrain.proxy.dialects import openai_chat
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.gateway import Gateway, Opened
from drivetrain.proxy.http import CallerLeft, EventStream, body_of, while_connected
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.metrics import REQUESTS
from drivetrain.proxy.recorder import Recorder
from drivetrain.proxy.sessions import Sessions

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
