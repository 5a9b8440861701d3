"""The admin listener of a service: /livez, /readyz and /metrics, apart from what harnesses can reach."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Protocol

import uvicorn
from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from drivetrain.common.errors import CannotStart
from drivetrain.common.settings import AdminSettings
from drivetrain.common.telemetry.logs import get_logger


class Readiness(Protocol):
    """Whoever knows what the service still waits for, and what it does without."""

    def unready(self) -> list[str]: ...
    def without(self) -> list[str]: ...


class PortInUse(CannotStart):
    """The port that a service was told to listen on belongs to another process."""


def admin_app(readiness: Readiness) -> FastAPI:
    """The admin endpoints as an ASGI app."""
    app = FastAPI(title="Drivetrain admin", openapi_url=None)

    @app.get("/livez")
    def live() -> dict[str, str]:
        return {"status": "live"}

    @app.get("/readyz")
    def ready(response: Response) -> dict[str, object]:
        waiting = readiness.unready()
        response.status_code = 503 if waiting else 200
        without = readiness.without()
        return {"status": "waiting" if waiting else "ready", "waiting_for": waiting, "without": without}

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return app


def listen(host: str, port: int) -> socket.socket:
    """A listening TCP socket.

    Raises:
        PortInUse: with the port and the remedy in the message.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise PortInUse(f"cannot listen on {host}:{port} ({error.strerror}): free that port or set another") from error
    listener.listen(2048)
    return listener


class Server(uvicorn.Server):
    """uvicorn as one task among others: it leaves signals to the service's own lifecycle."""

    async def serve_on(self, *listeners: socket.socket) -> None:
        """Serve until `should_exit` is set, on sockets that are already listening."""
        await self._serve(list(listeners))


def uvicorn_config(app: Callable[..., Any], **more: Any) -> uvicorn.Config:
    """How every HTTP listener of ours runs: no access log, no signal handling, no WebSockets, a bounded shutdown."""
    return uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=8, lifespan="off", ws="none", **more
    )


async def serve_admin(readiness: Readiness, settings: AdminSettings) -> "asyncio.Task[None]":
    """Start the admin listener in the background; the caller cancels the task at the very end of its life."""
    listener = listen(settings.host, settings.port)
    server = Server(uvicorn_config(admin_app(readiness)))
    get_logger("admin").info("admin listening", port=listener.getsockname()[1])
    return asyncio.create_task(server.serve_on(listener), name="admin")
