"""Agents that mean harm, confined: what they do ends with them, is told, and reaches nobody else."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from drivetrain.orchestrator.backends.base import Access, BackendError, Command, Exit, Sandbox
from drivetrain.orchestrator.backends.making import confinement, groups
from drivetrain.orchestrator.backends.process.backend import ProcessBackend
from drivetrain.orchestrator.backends.process.cgroups import Cgroups
from drivetrain.orchestrator.backends.process.lease import ProcessLease
from drivetrain.orchestrator.backends.process.limits import Limits

SMALL = Limits(memory_mb=64, processes=24, disk_mb=16, files=500)
BOMB = "bomb() { bomb | bomb & }; bomb; sleep 2"
HOG = "import time\nheld = []\nwhile True: held.append(bytearray(4 << 20)); time.sleep(0.001)"


def works() -> bool:
    try:
        return confinement("bubblewrap", Path("/nowhere"), ()) is not None
    except BackendError:
        return False


pytestmark = pytest.mark.skipif(not works(), reason="bubblewrap does not work on this machine")
grouped = pytest.mark.skipif(groups("drivetrain", Path("/nowhere")) is None, reason="no control groups for this user")


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[ProcessBackend]:
    leases = tmp_path / "leases"
    made = ProcessBackend(
        leases,
        grace_s=0.3,
        bubblewrap=confinement("bubblewrap", leases, ()),
        cgroups=groups("drivetrain", leases),
        limits=SMALL,
    )
    yield made
    await made.reap()


async def run(lease: ProcessLease, *argv: str, timeout_s: float = 30.0) -> Exit:
    return await lease.exec(Command(argv, timeout_s))


async def shell(lease: ProcessLease, script: str, timeout_s: float = 30.0) -> Exit:
    return await run(lease, "/bin/sh", "-c", script, timeout_s=timeout_s)


def group_of(backend: ProcessBackend) -> Cgroups:
    assert backend.cgroups is not None
    return backend.cgroups


@grouped
async def test_a_fork_bomb_runs_into_its_limit_and_nothing_of_it_is_left(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    bomb = asyncio.create_task(shell(lease, BOMB, timeout_s=2.0))
    await asyncio.sleep(0.5)
    [(name, group)] = group_of(backend).left()
    assert name == "a"
    assert len(group.pids()) <= SMALL.processes
    assert "processes" in (await bomb).limits
    assert group.pids() == set()
    assert (await shell(lease, "echo still here")).status == 0


@grouped
async def test_memory_beyond_the_limit_ends_the_command_alone(backend: ProcessBackend) -> None:
    other = await backend.start(Sandbox("other"))
    waiting = asyncio.create_task(shell(other, "sleep 2; echo alive"))
    lease = await backend.start(Sandbox("a"))
    ran = await run(lease, "python3", "-c", HOG)
    assert (ran.limits, ran.signal, ran.timed_out) == (("memory",), 9, False)
    assert (await waiting).status == 0


async def test_memory_of_tmpfs_counts_too(backend: ProcessBackend) -> None:
    if backend.cgroups is None:
        pytest.skip("no control groups for this user")
    lease = await backend.start(Sandbox("a"))
    ran = await shell(lease, "for i in $(seq 20); do head -c 10M /dev/zero > /dev/shm/$i; done; echo all > out")
    assert ran.limits == ("memory",)


async def test_a_disk_is_filled_up_to_its_limit_by_one_file_or_by_many(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("one"))
    assert (await shell(lease, "head -c 100M /dev/zero > big || echo refused > told")).status == 0
    assert await lease.read("work/told", 10) == b"refused\n"
    many = await backend.start(Sandbox("many"))
    fill = "i=0; while :; do i=$((i+1)); head -c 4M /dev/zero > $TMPDIR/$i; sleep 0.05; done"
    ran = await shell(many, fill)
    assert (ran.limits, ran.status, ran.timed_out) == (("disk",), -9, False)
    empty = await backend.start(Sandbox("empty"))
    assert (await shell(empty, "i=0; while :; do i=$((i+1)); : > f$i; done")).limits == ("disk",)


async def test_a_log_without_end_is_a_full_disk(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    ran = await shell(lease, "yes")
    assert ran.limits == ("disk",) or ran.signal == 25  # SIGXFSZ
    assert (lease.folder / "output.log").stat().st_size <= SMALL.disk_mb * 1024**2


async def test_without_access_there_is_no_network_at_all(backend: ProcessBackend) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        lease = await backend.start(Sandbox("a"))
        look = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        assert (await run(lease, "python3", "-c", look)).status != 0
        assert "Connection refused" in await lease.logs(2000)
    outside = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
    assert (await run(lease, "python3", "-c", outside)).status != 0
    assert "Network is unreachable" in await lease.logs(2000)


async def test_a_rollouts_only_way_out_is_the_proxys_socket(backend: ProcessBackend, tmp_path: Path) -> None:
    async with proxy(tmp_path / "p.sock") as url:
        lease = await backend.start(Sandbox("a", access=Access(url, "the-key")))
        assert lease.proxy_url == "http://127.0.0.1:8411"
        ask = f"import urllib.request as r; print(r.urlopen('{lease.proxy_url}/v1/models', timeout=5).read().decode())"
        assert (await run(lease, "python3", "-c", ask)).status == 0
        assert await lease.logs(100) == "GET /v1/models over the socket"
        direct = f"import urllib.request as r; r.urlopen('{url}/v1/models', timeout=5)"
        assert (await run(lease, "python3", "-c", direct)).status != 0
        await lease.stop()


async def test_a_proxy_without_sockets_is_said_or_done_without(backend: ProcessBackend, tmp_path: Path) -> None:
    async with proxy(None) as url:
        access = Access(url, "the-key")
        open_ = await backend.start(Sandbox("a", access=access))
        assert open_.proxy_url == url
        strict = ProcessBackend(backend.root, bubblewrap=backend.bubblewrap, network="proxy")
        with pytest.raises(BackendError, match=r"set its listen\.rollouts to a folder"):
            await strict.start(Sandbox("b", access=access))
    with pytest.raises(BackendError, match="cannot be reached"):
        await backend.start(Sandbox("c", access=access))


async def test_limits_hold_without_control_groups(tmp_path: Path) -> None:
    leases = tmp_path / "leases"
    plain = ProcessBackend(leases, grace_s=0.3, limits=SMALL)
    lease = await plain.start(Sandbox("a"))
    ran = await run(lease, "python3", "-c", HOG)
    assert ran.status == 1
    assert "MemoryError" in await lease.logs(2000)
    told = {"memory": "rlimit, for each process", "network": "the machine's"}
    assert {name: plain.means[name] for name in told} == told
    assert plain.means["files"].startswith("none")
    await lease.stop()


def test_what_this_machine_has_is_told(backend: ProcessBackend) -> None:
    assert (backend.means["files"], backend.means["network"]) == ("bubblewrap", "the proxy's socket alone")
    if backend.cgroups is not None:
        assert backend.means["memory"] == backend.means["processes"] == f"cgroup v{backend.cgroups.version}"
    elif os.getuid() == 0:
        assert backend.means["processes"].startswith("none")


@asynccontextmanager
async def proxy(path: Path | None) -> AsyncIterator[str]:
    """Enough of a proxy: `PUT /v1/socket` opens its only unix socket, if it has one."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, over: str) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        line = request.partition(" HTTP")[0]
        status, body = "200 OK", f"{line} over {over}"
        if line == "PUT /v1/socket":
            assert "authorization: Bearer the-key" in request
            status, body = ("200 OK", f'{{"path": "{path}"}}') if path else ("404 Not Found", "")
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write((head + body).encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(lambda r, w: answer(r, w, "TCP"), "127.0.0.1", 0)
    inner = await asyncio.start_unix_server(lambda r, w: answer(r, w, "the socket"), path) if path else None
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        if inner:
            inner.close()
