"""The endpoints as an ASGI app: its routes, refusals in the shape that each caller knows, and the OpenAPI document."""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from drivetrain.common.errors import CannotStart
from drivetrain.common.identity import RolloutKey
from drivetrain.common.telemetry.traces import trace
from drivetrain.proxy.access.door import Door
from drivetrain.proxy.access.keys import key_in
from drivetrain.proxy.access.rollouts import RolloutSockets
from drivetrain.proxy.api.endpoints import Endpoints
from drivetrain.proxy.api.http import CallerLeft, json_response
from drivetrain.proxy.api.patience import status_of
from drivetrain.proxy.dialects import anthropic, gemini, openai_chat
from drivetrain.proxy.dialects.base import Dialect
from drivetrain.proxy.dialects.catalog import DIALECTS, schemas
from drivetrain.proxy.dialects.models import is_gemini
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.metrics import REQUESTS

Handler = Callable[[Request], Awaitable[Response]]


def build_app(endpoints: Endpoints) -> FastAPI:
    """The endpoints as an ASGI app, with and without a session in the path."""
    app = FastAPI(title="Drivetrain proxy", docs_url=None, redoc_url=None)
    bodies, components = schemas()
    routes: list[tuple[str, str, str, Handler]] = [
        (dialect.PATH, "POST", _endpoint(dialect.PATH), partial(endpoints.reply, dialect)) for dialect in DIALECTS
    ]
    routes += [
        *_gemini(endpoints),
        ("/v1beta/models", "GET", "models", endpoints.models),
        ("/v1beta/models/{model}", "GET", "models", endpoints.model),
        ("/v1/messages/count_tokens", "POST", "count_tokens", endpoints.count_tokens),
        ("/v1/feedback", "POST", "feedback", endpoints.feedback),
        ("/v1/models", "GET", "models", endpoints.models),
        ("/v1/models/{model}", "GET", "models", endpoints.model),
    ]
    router, straight = APIRouter(), {}
    for path, method, name, handler in routes:
        straight[method, path] = answer = _answer(name, handler)
        router.add_api_route(path, answer, methods=[method], openapi_extra=_described(bodies.get(path)))
    app.include_router(router)
    app.add_middleware(Straight, routes=straight)
    app.include_router(router, prefix="/s/{session}", include_in_schema=False)
    app.add_exception_handler(404, _not_found)
    app.add_exception_handler(405, _not_allowed)
    app.add_exception_handler(Exception, _failed)
    _describe(app, components)
    return app


def _endpoint(path: str) -> str:
    """What the metrics call the endpoint of a dialect."""
    return path.rpartition(":")[2].removeprefix("/v1/")


def _gemini(endpoints: Endpoints) -> list[tuple[str, str, str, Handler]]:
    """The routes that Gemini's clients take, under both names of its API."""
    reply = (_endpoint(gemini.PATH), partial(endpoints.reply, gemini))
    handlers: dict[str, tuple[str, Handler]] = {
        gemini.also(gemini.PATH): reply,
        gemini.STREAM_PATH: reply,
        gemini.also(gemini.STREAM_PATH): reply,
        gemini.COUNT_PATH: ("count_tokens", endpoints.gemini_count),
        gemini.also(gemini.COUNT_PATH): ("count_tokens", endpoints.gemini_count),
    }
    return [(path, "POST", name, handler) for path, (name, handler) in handlers.items()]


class Straight:
    """Leads requests for these very paths to their handlers past FastAPI's routing, which takes longer than reading the
    request. All others go on to it."""

    def __init__(self, app: ASGIApp, routes: Mapping[tuple[str, str], Handler]) -> None:
        self._app = app
        self._routes = {route: handler for route, handler in routes.items() if "{" not in route[1]}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._routes.get((scope.get("method", ""), scope.get("path", "")))
        if handler is None:
            await self._app(scope, receive, send)
            return
        scope["path_params"] = {}
        response = await handler(Request(scope, receive, send))
        await response(scope, receive, send)


def add_sockets(app: FastAPI, door: Door, sockets: RolloutSockets) -> None:
    """`PUT` and `DELETE /v1/socket`, with which a rollout's key opens and closes that rollout's own unix socket."""

    def key_of(request: Request) -> RolloutKey:
        key = door.principal(request).rollout
        if key is None:
            raise Refused(403, "only a signed rollout key has a socket of its own", code="not_a_rollout")
        return key

    async def put(request: Request) -> Response:
        try:
            path = await sockets.open(key_of(request), key_in(request.headers))
        except CannotStart as error:
            raise Refused(503, str(error), code="no_socket") from error
        return json_response({"object": "socket", "path": str(path)})

    async def delete(request: Request) -> Response:
        sockets.close(key_of(request))
        return Response(status_code=204)

    app.add_api_route("/v1/socket", _answer("socket", put), methods=["PUT"])
    app.add_api_route("/v1/socket", _answer("socket", delete), methods=["DELETE"])


def _answer(endpoint: str, handler: Handler) -> Handler:
    """Count the request, and answer refusals in the dialect's shape."""

    async def answer(request: Request) -> Response:
        with trace(request.headers):
            try:
                response = await handler(request)
            except Refused as error:
                response = _refusal(request, error)
            except RecursionError:
                response = _refusal(request, Refused(400, "the request has JSON of too many levels", code="too_deep"))
            except CallerLeft:
                response = Response(status_code=499)
        REQUESTS.labels(endpoint, str(response.status_code)).inc()
        return response

    answer.__name__ = endpoint.replace("/", "_")
    return answer


_GEMINI = re.compile(r"/models/[^/]+:(generateContent|streamGenerateContent|countTokens)$")


def dialect_of(request: Request) -> Dialect:
    """In whose shape a request is refused: that of its path, or of the client it comes from."""
    path = request.url.path
    if "anthropic-version" in request.headers or "/v1/messages" in path:
        return anthropic
    if is_gemini(path, request.headers) or _GEMINI.search(path):
        return gemini
    return next((dialect for dialect in DIALECTS if path.endswith(dialect.PATH)), openai_chat)


def _refusal(request: Request, error: Refused) -> Response:
    response = json_response(dialect_of(request).error(error), status_of(error.status, request.headers))
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


async def _not_found(request: Request, error: Exception) -> Response:
    return _refusal(request, Refused(404, f"there is no {request.url.path} here", code="not_found"))


async def _not_allowed(request: Request, error: Exception) -> Response:
    if request.headers.get("upgrade", "").lower() == "websocket":
        # Clients that get this fall back to POST at once; to any other status they come back.
        refused = Refused(426, f"{request.url.path} speaks no WebSocket: send a POST", code="no_websocket")
        return _refusal(request, refused)
    if dialect_of(request) is gemini:
        return await _not_found(request, error)  # its methods stand in the path
    message = f"{request.url.path} does not take {request.method}"
    response = _refusal(request, Refused(405, message, code="method_not_allowed"))
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def _failed(request: Request, error: Exception) -> Response:
    """An error of ours: the caller learns that it is one, the log has the traceback."""
    return _refusal(request, Refused(500, "the proxy failed on this request; its log says why"))


def _described(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """A route's request body for OpenAPI."""
    if schema is None:
        return None
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _describe(app: FastAPI, components: dict[str, Any]) -> None:
    """Add the components, to which the bodies refer, to the OpenAPI document."""
    generated = app.openapi

    def openapi() -> dict[str, Any]:
        document = generated()
        document.setdefault("components", {}).setdefault("schemas", {}).update(components)
        return document

    app.openapi = openapi  # type: ignore[method-assign]
