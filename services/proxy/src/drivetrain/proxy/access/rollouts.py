"""A unix socket for each rollout that asks: whatever comes through it speaks for its rollout alone.

A sandbox that is given nothing but its socket reaches nothing but the proxy, and needs no key.
"""

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from drivetrain.common.errors import CannotStart
from drivetrain.common.identity import RolloutKey, rollout_session
from drivetrain.proxy.access.sockets import SocketPath
from drivetrain.proxy.api.listeners import Listeners

_KEY_HEADERS = frozenset((b"authorization", b"x-api-key", b"x-goog-api-key"))


class RolloutSockets:
    """The sockets of rollouts, in one folder, with these permissions."""

    def __init__(self, listeners: Listeners, app: ASGIApp, secret: bytes, folder: Path, mode: int) -> None:
        self._listeners, self._app, self._secret = listeners, app, secret
        self._folder, self._mode = folder, mode
        self._opening = asyncio.Lock()
        self._open: dict[str, tuple[SocketPath, asyncio.AbstractServer, asyncio.TimerHandle]] = {}

    async def open(self, key: RolloutKey, text: str) -> Path:
        """The path of a rollout's socket, which is there until its key (given also as text) expires.

        Raises:
            CannotStart: the socket cannot be made.
        """
        name = rollout_session(self._secret, key)
        async with self._opening:
            if name not in self._open:
                path, server = await self._serve(name, text)
                left = max(key.expires_at - time.time(), 0.0)
                timer = asyncio.get_running_loop().call_later(left, self._close, name)
                self._open[name] = (path, server, timer)
            return self._open[name][0].path

    def close(self, key: RolloutKey) -> None:
        """Remove a rollout's socket, if it has one."""
        self._close(rollout_session(self._secret, key))

    def close_all(self) -> None:
        """Remove every socket."""
        for name in list(self._open):
            self._close(name)

    async def _serve(self, name: str, text: str) -> tuple[SocketPath, asyncio.AbstractServer]:
        path = SocketPath(self._folder / f"{name}.sock", self._mode)
        with ExitStack() as undo:
            undo.callback(path.close)
            try:
                server = await self._listeners.accept(path, Bound(self._app, text))
            except OSError as error:
                raise CannotStart(f"cannot accept on {path.path}: {error}") from error
            undo.pop_all()
        return path, server

    def _close(self, name: str) -> None:
        if found := self._open.pop(name, None):
            path, server, timer = found
            timer.cancel()
            self._listeners.leave(server)
            path.close()


class Bound:
    """An app in which every request carries this key, whatever key it came with."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._header = app, (b"authorization", b"Bearer " + key.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            others = [pair for pair in scope["headers"] if pair[0] not in _KEY_HEADERS]
            scope = {**scope, "headers": [*others, self._header]}
        await self._app(scope, receive, send)
