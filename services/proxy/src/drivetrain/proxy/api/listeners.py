"""Where the proxy listens: TCP with or without TLS, and unix sockets, several at once."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack

import uvicorn
from starlette.types import ASGIApp

from drivetrain.common.errors import CannotStart
from drivetrain.common.telemetry.admin import Server, listen, uvicorn_config
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.access.protocol import Patience, bounded
from drivetrain.proxy.access.sockets import SocketPath
from drivetrain.proxy.settings import ListenSettings

_log = get_logger("listener")


class Listeners:
    """All listeners of one app. They accept from when `serve` runs; `close` removes the unix sockets."""

    def __init__(self, app: ASGIApp, settings: ListenSettings, patience: Patience) -> None:
        """
        Raises:
            CannotStart: an address or a path is taken, or the certificate cannot be used.
        """
        protocol = bounded(patience)
        self._settings, self._protocol, self._stack = settings, protocol, ExitStack()
        config = uvicorn_config(app, http=protocol, **_tls(settings))
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            words = f"listen.certificate {settings.certificate}, listen.key {settings.key}: {error}"
            raise CannotStart(f"{words}; give a PEM chain and its private key") from error
        self._server = _Server(config)
        with self._stack:
            self._tcp = [self._closed_later(listen(host, settings.port)) for host in settings.hosts]
            self._unix = [self._removed_later(SocketPath(path, settings.mode)) for path in settings.paths]
            if settings.rollouts is not None:
                settings.rollouts.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._stack = self._stack.pop_all()

    @property
    def addresses(self) -> list[str]:
        """Where to reach this app."""
        scheme = "https" if self._settings.certificate else "http"
        return [_url(scheme, each) for each in self._tcp] + [f"unix:{each.path}" for each in self._unix]

    async def serve(self, until: Callable[[], object] = lambda: None) -> None:
        """Serve until `stop` is called; replies in progress may end. `until` is called as soon as it accepts."""
        self._server.unix = [each.listener for each in self._unix]
        self._server.accepting = until
        await self._server.serve_on(*self._tcp)

    def stop(self) -> None:
        """Accept no more, and let `serve` end."""
        self._server.should_exit = True

    def close(self) -> None:
        """Close what listens, and remove the unix sockets."""
        self._stack.close()

    async def accept(self, path: SocketPath, app: ASGIApp) -> asyncio.AbstractServer:
        """Serve another app on a unix socket, as part of this server: it ends with it."""
        config = uvicorn_config(app, http=self._protocol)
        config.load()
        return await self._server.accept(path.listener, config)

    def leave(self, server: asyncio.AbstractServer) -> None:
        """End what `accept` began; its connections may end by themselves."""
        server.close()
        self._server.servers.remove(server)  # type: ignore[arg-type]

    def _closed_later(self, listener: socket.socket) -> socket.socket:
        self._stack.callback(listener.close)
        return listener

    def _removed_later(self, path: SocketPath) -> SocketPath:
        self._stack.callback(path.close)
        return path


class _Server(Server):
    """Also serves unix sockets, which never speak TLS."""

    unix: list[socket.socket]
    accepting: Callable[[], object]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in self.unix:
            await self.accept(listener, self.config)
        self.accepting()

    async def accept(self, listener: socket.socket, config: uvicorn.Config) -> asyncio.AbstractServer:
        """Serve one more listener, by this configuration, until the server ends."""
        protocol, state = config.http_protocol_class, self.server_state

        def connected() -> asyncio.Protocol:
            return protocol(config=config, server_state=state, app_state={})  # type: ignore[call-arg]

        server = await asyncio.get_running_loop().create_unix_server(connected, sock=listener)
        self.servers.append(server)
        return server


def _tls(settings: ListenSettings) -> dict[str, object]:
    if settings.certificate is None:
        return {}
    return {"ssl_certfile": settings.certificate, "ssl_keyfile": settings.key}


def _url(scheme: str, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
