"""Stores that are full, read-only, slow, overloaded or away: the error says which, and what was there stays."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from drivetrain.common.bus.nats import connect
from drivetrain.common.settings import BusSettings
from drivetrain.common.store.blobs import open_blobs
from drivetrain.common.store.errors import Absent, Full, ReadOnly, StoreError, Unavailable
from tests.servers import free_port, nats_command, running

IN_A_SMALL_DISK = """
    import asyncio, pathlib, sys
    from drivetrain.common.store.blobs import open_blobs
    from drivetrain.common.store.errors import StoreError

    async def main():
        blobs = open_blobs(pathlib.Path(sys.argv[1]).as_uri())
        try:
            await blobs.put("a/b", b"x" * int(sys.argv[2]))
        except StoreError as error:
            print(type(error).__name__, error)
        print([(entry.key, entry.size) for entry in await blobs.entries("a/")])
        print(sorted(file.name for file in pathlib.Path(sys.argv[1], "a").iterdir()))

    asyncio.run(main())
"""


def in_a_disk_of(folder: Path, mount: str, size: int) -> str:
    """Put a value into a store on a small disk that only one child process sees; returns what it prints."""
    script = f'mkdir -p {folder}; mount -t tmpfs -o size=64k tmpfs {folder} && mkdir {folder}/a && {mount} exec "$@"'
    program = [sys.executable, "-c", textwrap.dedent(IN_A_SMALL_DISK), str(folder), str(size)]
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *program], capture_output=True, text=True, check=False, timeout=60
    )
    if "unshare" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip(f"this machine lets nobody mount a small disk: {ran.stderr.strip()}")
    return ran.stdout + ran.stderr


needs_unshare = pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare makes the small disk")


@needs_unshare
def test_a_full_disk_is_full_and_keeps_no_half(tmp_path: Path) -> None:
    printed = in_a_disk_of(tmp_path / "disk", "", 100_000)
    assert "Full file:///" in printed
    assert "is full: free space there, or move the store" in printed
    assert printed.endswith("[]\n[]\n")


@needs_unshare
def test_a_disk_that_cannot_be_written_is_read_only(tmp_path: Path) -> None:
    printed = in_a_disk_of(tmp_path / "disk", f"mount -o remount,ro {tmp_path / 'disk'} &&", 10)
    assert "ReadOnly file:///" in printed
    assert "cannot be written: Read-only file system" in printed


class Answering(ThreadingHTTPServer):
    """An S3 server that says the same to everything; `delay_s` before it does."""

    answer: tuple[int, str] = (200, "")
    hang = threading.Event()
    asked = 0


class _Handler(BaseHTTPRequestHandler):
    server: Answering

    def do_PUT(self) -> None:
        self.server.asked += 1
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, code = self.server.answer
        if not status:
            self.server.hang.wait(20)
            return
        body = f"<Error><Code>{code}</Code><Message>told to</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT  # noqa: N815

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Nothing is printed."""


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    server = Answering(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    yield server
    server.hang.set()
    server.shutdown()
    server.server_close()
    server.hang.clear()


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        ((503, "SlowDown"), Unavailable, "503"),
        ((500, "InternalError"), Unavailable, "500"),
        ((403, "AccessDenied"), ReadOnly, "does not let this process do that"),
        ((507, "XMinioStorageFull"), Full, "is full"),
        ((404, "NoSuchBucket"), StoreError, "the bucket of s3://bucket/p does not exist: create it"),
        ((0, ""), Unavailable, "does not answer as it should"),
    ],
)
async def test_what_s3_says_is_told_by_type(
    s3: Answering, answer: tuple[int, str], kind: type[StoreError], message: str
) -> None:
    s3.answer = answer
    blobs = open_blobs("s3://bucket/p", timeout_s=1.0)
    with pytest.raises(kind, match=message):
        await blobs.put("a/b", b"value")


async def test_an_overloaded_s3_is_asked_again_within_the_time(s3: Answering) -> None:
    s3.answer = (503, "SlowDown")
    with pytest.raises(Unavailable):
        await open_blobs("s3://bucket/p", timeout_s=1.5).put("a/b", b"value")
    assert s3.asked > 1


async def test_an_s3_server_that_is_away_is_unavailable(monkeypatch: pytest.MonkeyPatch, s3: Answering) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(Unavailable):
        await open_blobs("s3://bucket/p", timeout_s=1.0).read("a/b")


async def test_a_full_bucket_of_the_bus_is_full_and_keeps_what_it_has(nats_url: str) -> None:
    bus = await connect(BusSettings(url=nats_url))
    blobs = open_blobs(f"{nats_url}/small-bucket", timeout_s=10)
    await blobs.put("a/first", b"first")
    info = await bus.js.stream_info("OBJ_small-bucket")
    await bus.js.update_stream(info.config.evolve(max_bytes=200_000))
    with pytest.raises(Full, match="raise the bucket's limit"):
        await blobs.put("a/second", os.urandom(400_000))
    assert [entry.key for entry in await blobs.entries("a/")] == ["a/first"]
    assert await blobs.read("a/first") == b"first"
    await blobs.close()
    await bus.close()


async def test_a_sealed_bucket_of_the_bus_is_read_only(nats_url: str) -> None:
    bus = await connect(BusSettings(url=nats_url))
    blobs = open_blobs(f"{nats_url}/sealed-bucket", timeout_s=10)
    await blobs.put("a/first", b"first")
    await (await bus.js.object_store("sealed-bucket")).seal()
    for act in (blobs.put("a/second", b"second"), blobs.delete("a/first")):
        with pytest.raises(ReadOnly, match="cannot be written"):
            await act
    assert await blobs.read("a/first") == b"first"
    await blobs.close()
    await bus.close()


async def test_a_bus_that_stops_answering_is_unavailable_and_good_again_when_it_answers(tmp_path: Path) -> None:
    port = free_port()
    with running(nats_command(port, tmp_path / "data"), port, tmp_path / "log") as server:
        blobs = open_blobs(f"nats://127.0.0.1:{port}/bucket", timeout_s=1.0)
        await blobs.put("a/b", b"value")
        server.send_signal(signal.SIGSTOP)
        with pytest.raises(Unavailable, match="does not answer as it should"):
            await blobs.read("a/b")
        server.send_signal(signal.SIGCONT)
        async with asyncio.timeout(20):
            while True:
                try:
                    assert await blobs.read("a/b") == b"value"
                    break
                except Unavailable:
                    continue
        await blobs.close()


async def test_a_bus_that_is_away_is_unavailable() -> None:
    blobs = open_blobs(f"nats://127.0.0.1:{free_port()}/bucket", timeout_s=1.0)
    with pytest.raises(Unavailable):
        await blobs.read("a/b")


async def test_a_folder_that_does_not_exist_is_an_empty_store(tmp_path: Path) -> None:
    blobs = open_blobs((tmp_path / "nowhere").as_uri())
    assert await blobs.entries("a/") == []
    with pytest.raises(Absent):
        await blobs.read("a/b")
