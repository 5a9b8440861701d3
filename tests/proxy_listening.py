"""Listeners of the proxy in this process, before an app that says with which key it was asked."""

import asyncio
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.requests import Request

from drivetrain.proxy.access.keys import key_in
from drivetrain.proxy.access.protocol import Patience
from drivetrain.proxy.api.listeners import Listeners
from drivetrain.proxy.settings import ListenSettings

Serve = Callable[..., AbstractAsyncContextManager[Listeners]]


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def through(path: Path) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(path)), base_url="http://proxy", timeout=5)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> str:
    return stat.filemode(path.stat().st_mode)


def asking() -> FastAPI:
    """Says with which key it was asked."""
    app = FastAPI()

    @app.get("/")
    async def whoami(request: Request) -> dict[str, str]:
        return {"key": key_in(request.headers), "scheme": request.url.scheme}

    return app


def serving(app: FastAPI) -> Serve:
    """What starts listeners with settings of `listen`."""

    @asynccontextmanager
    async def start(**settings: Any) -> AsyncIterator[Listeners]:
        listeners = Listeners(app, ListenSettings(**{"port": 0} | settings), Patience())
        accepting = asyncio.Event()
        task = asyncio.create_task(listeners.serve(accepting.set))
        try:
            await asyncio.wait_for(accepting.wait(), 5)
            yield listeners
        finally:
            listeners.stop()
            await task
            listeners.close()

    return start
