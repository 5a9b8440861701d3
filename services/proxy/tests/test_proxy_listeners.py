"""Where the proxy is reached: TCP with and without TLS, unix sockets, and a socket of its own for each rollout."""

import asyncio
import ssl
import stat
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request

from drivetrain.common.errors import CannotStart
from drivetrain.common.events import RolloutRef
from drivetrain.common.identity import RolloutKey, sign_rollout_key
from drivetrain.proxy.access.bounds import Bounds
from drivetrain.proxy.access.door import Door
from drivetrain.proxy.access.keys import Keys, key_in
from drivetrain.proxy.access.protocol import Patience
from drivetrain.proxy.access.rates import Rates
from drivetrain.proxy.access.rollouts import RolloutSockets
from drivetrain.proxy.access.sockets import SocketPath
from drivetrain.proxy.api.listeners import Listeners
from drivetrain.proxy.api.server import add_sockets
from drivetrain.proxy.sessions import connect
from drivetrain.proxy.settings import ListenSettings

SECRET = b"a secret of the tests"
Serve = Callable[..., AbstractAsyncContextManager[Listeners]]


def rollout(name: str = "r7", left_s: float = 60) -> RolloutKey:
    ref = RolloutRef(run="run1", group="g1", rollout=name, group_size=2)
    return RolloutKey(rollout=ref, policy="agent", expires_at=time.time() + left_s)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def through(path: Path) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(path)), base_url="http://proxy", timeout=5)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> str:
    return stat.filemode(path.stat().st_mode)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path short enough for sockets."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture
def app() -> FastAPI:
    """Says with which key it was asked."""
    app = FastAPI()

    @app.get("/")
    async def whoami(request: Request) -> dict[str, str]:
        return {"key": key_in(request.headers), "scheme": request.url.scheme}

    return app


@pytest.fixture
def serve(app: FastAPI) -> Serve:
    @asynccontextmanager
    async def serving(**settings: Any) -> AsyncIterator[Listeners]:
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

    return serving


@pytest.fixture
def sockets_of(app: FastAPI, folder: Path) -> Callable[[Listeners], RolloutSockets]:
    def make(listeners: Listeners) -> RolloutSockets:
        sockets = RolloutSockets(listeners, app, SECRET, folder, 0o660)
        rates = Rates(connect("redis://127.0.0.1:1/0", 0.1))  # rollouts have no limits: it is not asked
        add_sockets(app, Door(Keys(SECRET), rates, Bounds()), sockets)
        return sockets

    return make


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost that vouches for itself, and its key."""
    made = tmp_path_factory.mktemp("tls")
    chain, key = made / "chain.pem", made / "key.pem"
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*new, *names, "-out", str(chain), "-keyout", str(key)], check=True, capture_output=True)
    return chain, key


async def test_tls_for_whoever_trusts_the_certificate(serve: Serve, certificate: tuple[Path, Path]) -> None:
    chain, key = certificate
    async with serve(certificate=chain, key=key) as listeners:
        (address,) = listeners.addresses
        assert address.startswith("https://127.0.0.1:")
        async with httpx.AsyncClient(verify=ssl.create_default_context(cafile=str(chain))) as http:
            assert (await http.get(address)).json()["scheme"] == "https"
        async with httpx.AsyncClient() as http:
            with pytest.raises(httpx.ConnectError, match="certificate"):
                await http.get(address)
            with pytest.raises(httpx.TransportError):
                await http.get(address.replace("https", "http"))


def test_a_certificate_that_cannot_be_used_ends_the_start_with_words(
    app: FastAPI, certificate: tuple[Path, Path], folder: Path
) -> None:
    chain, _ = certificate
    for key in (folder / "none.pem", chain):
        settings = ListenSettings(port=0, certificate=chain, key=key)
        with pytest.raises(CannotStart, match=r"listen\.certificate .* give a PEM chain"):
            Listeners(app, settings, Patience())


async def test_several_addresses_and_sockets_at_once(serve: Serve, folder: Path) -> None:
    one, two = folder / "one.sock", folder / "two.sock"
    async with serve(host="127.0.0.1, 127.0.0.2", unix=f"{one}, {two}", unix_mode="0660") as listeners:
        first, second, *rest = listeners.addresses
        assert rest == [f"unix:{one}", f"unix:{two}"]
        assert (first.split(":")[1], second.split(":")[1]) == ("//127.0.0.1", "//127.0.0.2")
        async with httpx.AsyncClient(headers=bearer("k")) as http:
            for address in (first, second):
                assert (await http.get(address)).json()["key"] == "k"
        for path in (one, two):
            assert mode(path) == "srw-rw----"
            async with through(path) as http:
                assert (await http.get("/", headers=bearer("k"))).json() == {"key": "k", "scheme": "http"}
        assert names(folder) == ["one.sock", "two.sock"]
    assert names(folder) == []


async def test_unix_sockets_alone(serve: Serve, folder: Path) -> None:
    path = folder / "only.sock"
    async with serve(host="", unix=str(path)) as listeners:
        assert listeners.addresses == [f"unix:{path}"]
        assert mode(path) == "srw-------"
        async with through(path) as http:
            assert (await http.get("/")).status_code == 200


def test_what_a_killed_process_left_is_replaced_and_what_is_in_use_is_not(folder: Path) -> None:
    path = folder / "s.sock"
    killed = SocketPath(path, 0o600)
    killed.listener.close()  # and the path stays
    living = SocketPath(path, 0o600)
    with pytest.raises(CannotStart, match="another process listens"):
        SocketPath(path, 0o600)
    killed.close()
    assert path.is_socket()  # it is not the killed one's any more
    living.close()
    assert not path.exists()
    path.write_text("precious")
    with pytest.raises(CannotStart, match="no socket"):
        SocketPath(path, 0o600)
    assert path.read_text() == "precious"
    with pytest.raises(CannotStart, match="longer than 107 bytes"):
        SocketPath(folder / ("x" * 120), 0o600)
    with pytest.raises(CannotStart, match="cannot listen on"):
        SocketPath(folder / "nowhere" / "s.sock", 0o600)


async def test_one_taken_place_leaves_no_other_behind(serve: Serve, app: FastAPI, folder: Path) -> None:
    (folder / "file").write_text("")
    settings = ListenSettings(port=0, unix=f"{folder}/one.sock, {folder}/file")
    with pytest.raises(CannotStart):
        Listeners(app, settings, Patience())
    assert names(folder) == ["file"]
    async with serve() as listeners:
        port = int(listeners.addresses[0].rsplit(":", 1)[1])
        with pytest.raises(CannotStart, match="free that port"):
            Listeners(app, ListenSettings(port=port), Patience())


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
