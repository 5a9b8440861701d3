"""The process backend with real children: scrubbed environment, hard timeouts, and nothing left behind."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from drivetrain.orchestrator.backends.base import PLACES, BackendError, CannotExec, Command, Sandbox
from drivetrain.orchestrator.backends.process.backend import ProcessBackend
from drivetrain.orchestrator.backends.process.lease import ProcessLease
from drivetrain.orchestrator.backends.process.running import MARK

DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("daemon.pid", "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not os.path.exists("daemon.pid") or not open("daemon.pid").read(): time.sleep(0.01)
"""
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
inner = subprocess.Popen([sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('inner', flush=True); time.sleep(600)"])
open("pids", "w").write(f"{os.getpid()} {inner.pid}")
time.sleep(600)
"""


@pytest.fixture
def backend(tmp_path: Path) -> ProcessBackend:
    return ProcessBackend(tmp_path / "leases", grace_s=0.3)


def shell(script: str, timeout_s: float = 20.0, **environment: str) -> Command:
    return Command(("/bin/sh", "-c", script), timeout_s, environment)


def python(script: str, timeout_s: float = 20.0) -> Command:
    return Command((sys.executable, "-c", script), timeout_s)


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def left_in(lease: ProcessLease, name: str) -> str:
    return (Path(lease.places["work"]) / name).read_text()


async def test_a_command_runs_in_the_work_folder_and_its_output_is_logged(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    ran = await lease.exec(shell("pwd; echo trouble >&2; exit 3"))
    assert (ran.status, ran.timed_out) == (3, False)
    assert await lease.logs(1000) == f"{lease.places['work']}\ntrouble"
    assert await lease.logs(7) == "trouble"


async def test_the_environment_holds_what_is_declared_and_nothing_else(
    backend: ProcessBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUD_SECRET", "hands off")
    lease = await backend.start(Sandbox("a"))
    await lease.exec(shell("env > env.txt", GREETING="hello", HOME="/root"))
    seen = dict(line.split("=", 1) for line in left_in(lease, "env.txt").splitlines())
    assert set(seen) - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "LANG", MARK, "GREETING", *PLACES.values()}
    assert seen["HOME"] == lease.places["home"]
    assert seen["GREETING"] == "hello"


async def test_programs_are_found_in_the_given_path_first(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "ls"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho mine\n")
    program.chmod(0o755)
    lease = await ProcessBackend(tmp_path / "leases", path=(program.parent,)).start(Sandbox("a"))
    await lease.exec(Command(("ls",), 20))
    assert await lease.logs(100) == "mine"


async def test_a_program_that_is_missing_is_said_with_the_path(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    with pytest.raises(CannotExec, match="no-such-harness was not found in /usr/local/bin"):
        await lease.exec(Command(("no-such-harness",), 5))


async def test_arguments_that_the_system_refuses_are_said(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    with pytest.raises(CannotExec, match="could not be started: Argument list too long"):
        await lease.exec(Command(("/bin/echo", "x" * 3_000_000), 5))


async def test_a_timeout_ends_a_command_that_obeys_term(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    ran = await lease.exec(shell("trap 'echo bye > bye.txt; exit 0' TERM; while :; do sleep 0.02; done", timeout_s=0.4))
    assert ran.timed_out
    assert left_in(lease, "bye.txt") == "bye\n"


async def test_a_command_that_ignores_term_is_killed_with_its_children(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    ran = await lease.exec(python(STUBBORN, timeout_s=1.0))
    assert (ran.status, ran.timed_out) == (-9, True)
    assert ran.seconds < 5
    assert all(gone(int(pid)) for pid in left_in(lease, "pids").split())


async def test_a_daemon_that_left_the_session_is_ended(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    ran = await lease.exec(python(DAEMON))
    assert ran.status == 0
    assert gone(int(left_in(lease, "daemon.pid")))


async def test_a_child_without_the_mark_is_ended_with_its_session(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    await lease.exec(shell("env -i /bin/sleep 600 & echo $! > pid"))
    assert gone(int(left_in(lease, "pid")))


async def test_cancelling_ends_the_command(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    task = asyncio.create_task(lease.exec(python(STUBBORN)))
    pids = Path(lease.places["work"]) / "pids"
    async with asyncio.timeout(20):
        while not (pids.exists() and pids.read_text()):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(gone(int(pid)) for pid in pids.read_text().split())


async def test_two_leases_do_not_end_each_others_processes(backend: ProcessBackend) -> None:
    first, second = await backend.start(Sandbox("a")), await backend.start(Sandbox("a2"))
    waiting = asyncio.create_task(first.exec(shell("while [ ! -e go ]; do sleep 0.02; done; echo on > on.txt")))
    await second.exec(shell("true"))
    await second.stop()
    (Path(first.places["work"]) / "go").touch()
    assert (await waiting).status == 0
    assert left_in(first, "on.txt") == "on\n"


async def test_stopping_removes_the_folder_and_may_be_repeated(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    await lease.exec(shell("mkdir -p deep/er && chmod 000 deep"))
    await lease.stop()
    await lease.stop()
    assert not lease.folder.exists()


async def test_a_kept_folder_stays(tmp_path: Path) -> None:
    lease = await ProcessBackend(tmp_path, keep=True).start(Sandbox("a"))
    await lease.exec(shell("echo x > x.txt"))
    await lease.stop()
    assert left_in(lease, "x.txt") == "x\n"


async def test_a_tree_goes_in_and_comes_out(backend: ProcessBackend, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("a")
    lease = await backend.start(Sandbox("a"))
    await lease.upload(tmp_path / "in", "work")
    await lease.exec(shell("cp a.txt b.txt"))
    assert await lease.download("work", tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["a.txt", "b.txt"]
    assert not await lease.download("work/c.txt", tmp_path / "c")


async def test_an_existing_lease_is_adopted(backend: ProcessBackend) -> None:
    await (await backend.start(Sandbox("a"))).exec(shell("echo x > x.txt"))
    assert left_in(await backend.start(Sandbox("a")), "x.txt") == "x\n"


async def test_reaping_ends_what_an_earlier_life_left(tmp_path: Path) -> None:
    earlier = ProcessBackend(tmp_path / "leases")
    lease = await earlier.start(Sandbox("a"))
    orphan = await asyncio.create_subprocess_exec("/bin/sleep", "600", env={MARK: str(lease.folder)})
    stranger = await asyncio.create_subprocess_exec("/bin/sleep", "600", env={MARK: str(tmp_path / "leases2/a")})
    try:
        assert await ProcessBackend(tmp_path / "leases").reap() == 1
        assert await orphan.wait() == -9
        assert stranger.returncode is None
        assert list((tmp_path / "leases").iterdir()) == []
    finally:
        stranger.kill()
        await stranger.wait()


async def test_a_disk_that_refuses_is_the_backends_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendError, match="cannot create"):
        await ProcessBackend(tmp_path / "file").start(Sandbox("a"))


def test_a_relative_folder_is_refused() -> None:
    with pytest.raises(BackendError, match="give an absolute path"):
        ProcessBackend(Path("leases"))
