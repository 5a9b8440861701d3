"""Where the proxy is reached: TCP with and without TLS, and unix sockets."""

import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from drivetrain.common.errors import CannotStart
from drivetrain.proxy.access.protocol import Patience
from drivetrain.proxy.access.sockets import SocketPath
from drivetrain.proxy.api.listeners import Listeners
from drivetrain.proxy.settings import ListenSettings
from tests.proxy_listening import Serve, asking, bearer, mode, names, serving, through


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
