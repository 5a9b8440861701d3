"""A unix socket of its own for each rollout: what comes through it speaks for that rollout, while its key is good."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from drivetrain.common.errors import CannotStart
from drivetrain.common.events import RolloutRef
from drivetrain.common.identity import RolloutKey, sign_rollout_key
from drivetrain.proxy.access.bounds import Bounds
from drivetrain.proxy.access.door import Door
from drivetrain.proxy.access.keys import Keys
from drivetrain.proxy.access.rates import Rates
from drivetrain.proxy.access.rollouts import RolloutSockets
from drivetrain.proxy.access.sockets import SocketPath
from drivetrain.proxy.api.listeners import Listeners
from drivetrain.proxy.api.server import add_sockets
from drivetrain.proxy.sessions import connect
from tests.proxy_listening import Serve, asking, bearer, mode, names, serving, through

SECRET = b"a secret of the tests"


def rollout(name: str = "r7", left_s: float = 60) -> RolloutKey:
    ref = RolloutRef(run="run1", group="g1", rollout=name, group_size=2)
    return RolloutKey(rollout=ref, policy="agent", expires_at=time.time() + left_s)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path short enough for sockets."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture
def app() -> FastAPI:
    return asking()


@pytest.fixture
def serve(app: FastAPI) -> Serve:
    return serving(app)


@pytest.fixture
def sockets_of(app: FastAPI, folder: Path) -> Callable[[Listeners], RolloutSockets]:
    def make(listeners: Listeners) -> RolloutSockets:
        sockets = RolloutSockets(listeners, app, SECRET, folder, 0o660)
        rates = Rates(connect("redis://127.0.0.1:1/0", 0.1))  # rollouts have no limits: it is not asked
        add_sockets(app, Door(Keys(SECRET), rates, Bounds()), sockets)
        return sockets

    return make


async def test_whatever_comes_through_a_rollouts_socket_speaks_for_it(
    serve: Serve, sockets_of: Callable[[Listeners], RolloutSockets], folder: Path
) -> None:
    key = sign_rollout_key(SECRET, rollout())
    async with serve(rollouts=folder) as listeners, httpx.AsyncClient() as http:
        sockets = sockets_of(listeners)
        at = listeners.addresses[0] + "/v1/socket"
        assert (await http.put(at)).json()["error"]["code"] == "not_a_rollout"
        answers = await asyncio.gather(*(http.put(at, headers=bearer(key)) for _ in range(4)))
        assert [answer.status_code for answer in answers] == [200] * 4
        (text,) = {answer.json()["path"] for answer in answers}
        path = Path(text)
        assert mode(path) == "srw-rw----"
        async with through(path) as inside:
            for headers in ({}, bearer("sk-mine"), {"x-api-key": "sk-mine"}, {"X-Goog-Api-Key": "sk-mine"}):
                assert (await inside.get("/", headers=headers)).json()["key"] == key
        assert (await http.delete(at, headers=bearer(key))).status_code == 204
        assert names(folder) == []
        assert (await http.put(at, headers=bearer(key))).json()["path"] == text
        assert names(folder) == [path.name]
    sockets.close_all()
    assert names(folder) == []


async def test_a_rollouts_socket_is_one_and_ends_with_its_key(
    serve: Serve, sockets_of: Callable[[Listeners], RolloutSockets], folder: Path
) -> None:
    async with serve(rollouts=folder) as listeners:
        sockets, key = sockets_of(listeners), rollout("short", left_s=0.2)
        text = sign_rollout_key(SECRET, key)
        path, same = await asyncio.gather(sockets.open(key, text), sockets.open(key, text))
        assert path == same
        assert names(folder) == [path.name]
        other = await sockets.open(rollout("long"), "key")
        await asyncio.sleep(0.2)  # so long the key is good
        assert names(folder) == [other.name]
        sockets.close_all()
        assert names(folder) == []


async def test_a_socket_that_cannot_be_served_leaves_nothing_behind(
    serve: Serve, sockets_of: Callable[[Listeners], RolloutSockets], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(path: SocketPath, app: Any) -> Any:
        raise OSError(24, "Too many open files")

    async with serve(rollouts=folder) as listeners:
        sockets = sockets_of(listeners)
        with monkeypatch.context() as broken:
            broken.setattr(listeners, "accept", refuse)
            with pytest.raises(CannotStart, match="Too many open files"):
                await sockets.open(rollout(), "key")
        assert names(folder) == []
        assert (await sockets.open(rollout(), "key")).is_socket()
        sockets.close_all()
