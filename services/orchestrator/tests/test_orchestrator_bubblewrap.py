"""Confined commands: Harbor's places, nothing of the others, and nothing left behind."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from drivetrain.common.events import RolloutState
from drivetrain.common.harnesses import load_harnesses
from drivetrain.common.tasks import parse_task
from drivetrain.orchestrator.backends.base import BackendError, Command, Exit, Sandbox
from drivetrain.orchestrator.backends.making import confinement
from drivetrain.orchestrator.backends.process.backend import ProcessBackend
from drivetrain.orchestrator.backends.process.bubblewrap import Bubblewrap, find_program, readable_for
from drivetrain.orchestrator.backends.process.lease import ProcessLease
from drivetrain.orchestrator.backends.process.running import MARK
from drivetrain.orchestrator.lifecycle.rollouts import Ending
from drivetrain.orchestrator.running.runner import Plan, Runner
from drivetrain.orchestrator.work_folder import fresh


def usable() -> bool:
    program = find_program()
    try:
        assert program is not None
        Bubblewrap(program, (), Path("/nowhere")).check()
    except (AssertionError, BackendError):
        return False
    return True


pytestmark = pytest.mark.skipif(not usable(), reason="bubblewrap does not work on this machine")


@pytest.fixture
def backend(tmp_path: Path) -> ProcessBackend:
    leases = tmp_path / "leases"
    return ProcessBackend(leases, grace_s=0.5, bubblewrap=confinement("bubblewrap", leases, ()))


async def unheard(state: RolloutState) -> None:
    """Nobody follows the states here."""


async def run(lease: ProcessLease, script: str, timeout_s: float = 20.0) -> Exit:
    return await lease.exec(Command(("/bin/sh", "-c", script), timeout_s))


def marked(folder: Path) -> list[int]:
    """The processes of a lease, seen from outside."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={folder}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def command_lines() -> set[bytes]:
    return {path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()}


async def test_folders_lie_where_harbors_containers_have_them(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a", "/srv/project"))
    assert (
        await run(lease, 'pwd; echo "$TEST_DIR $LOGS_DIR $HOME"; touch a /logs/verifier/b /tests/c "$HOME/d"')
    ).status == 0
    assert await lease.logs(200) == "/srv/project\n/tests /logs /home/agent"
    written = [(lease.folder / path).exists() for path in ("work/a", "logs/verifier/b", "tests/c", "home/d")]
    assert written == [True] * 4


async def test_another_rollouts_files_and_the_machines_are_not_there(backend: ProcessBackend, tmp_path: Path) -> None:
    other, lease = await backend.start(Sandbox("other")), await backend.start(Sandbox("mine"))
    await run(other, "echo secret > secret.txt")
    (tmp_path / "settings.env").write_text("secret")
    look = f"cat {other.folder}/work/secret.txt || cat {tmp_path}/settings.env || ls /root || cat /etc/shadow"
    assert (await run(lease, look)).status != 0
    assert "secret" not in (await lease.logs(4000)).replace("secret.txt", "")


async def test_the_system_cannot_be_written(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    assert (await run(lease, "touch /usr/bin/x || touch /etc/passwd || rm /bin/sh")).status != 0
    assert os.access("/bin/sh", os.X_OK)


async def test_processes_outside_are_neither_seen_nor_signalled(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    assert await run(lease, f"test ! -e /proc/{os.getpid()}/environ || ! grep -q pytest /proc/{os.getpid()}/cmdline")
    await run(lease, "ls -d /proc/[0-9]* | wc -l")
    assert int((await lease.logs(10)).split()[-1]) < 10


async def test_the_status_and_a_signal_are_the_commands_own(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    assert [(await run(lease, script)).status for script in ("exit 3", "kill -SEGV $$")] == [3, -signal.SIGSEGV]


async def test_a_timeout_asks_before_it_kills(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    ran = await run(lease, "trap 'echo bye > bye.txt; exit 0' TERM; while :; do sleep 0.02; done", timeout_s=0.5)
    assert ran.timed_out
    assert (lease.folder / "work/bye.txt").read_text() == "bye\n"
    begun = time.monotonic()
    assert (await run(lease, "trap '' TERM; while :; do sleep 0.02; done", timeout_s=0.3)).timed_out
    assert time.monotonic() - begun < 10
    assert marked(lease.folder) == []


async def test_processes_that_an_agent_leaves_behind_end_with_it(backend: ProcessBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    left = "setsid sleep 60001 & env -i setsid sleep 60002 & nohup sleep 60003 >/dev/null 2>&1 & touch done"
    assert (await run(lease, left)).status == 0
    assert marked(lease.folder) == []
    assert not {f"sleep\0{seconds}\0".encode() for seconds in (60001, 60002, 60003)} & command_lines()


async def test_a_dead_orchestrator_leaves_nothing_running(tmp_path: Path) -> None:
    script = f"""
import asyncio
from pathlib import Path
from drivetrain.orchestrator.backends.making import confinement
from drivetrain.orchestrator.backends.base import Command, Sandbox
from drivetrain.orchestrator.backends.process.backend import ProcessBackend
async def main():
    leases = Path({str(tmp_path / "leases")!r})
    lease = await ProcessBackend(leases, bubblewrap=confinement("bubblewrap", leases, ())).start(Sandbox("a"))
    await lease.exec(Command(("/bin/sh", "-c", "touch up; sleep 600"), 600))
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    lease = tmp_path / "leases/a"
    async with asyncio.timeout(30):
        while not await asyncio.to_thread((lease / "work/up").exists):  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
        process.kill()
        await process.wait()
        while marked(lease):  # noqa: ASYNC110 - the kernel ends them
            await asyncio.sleep(0.02)


async def test_a_program_of_a_virtual_environment_can_be_used(tmp_path: Path) -> None:
    path = (Path(sys.executable).parent,)
    leases = tmp_path / "leases"
    bubblewrap = confinement("bubblewrap", leases, readable_for(path))
    lease = await ProcessBackend(leases, path, bubblewrap=bubblewrap).start(Sandbox("a"))
    ran = await lease.exec(Command(("python", "-c", "import msgspec, sys; print(sys.prefix)"), 30))
    assert ran.status == 0, await lease.logs(2000)
    assert await lease.logs(200) == sys.prefix


async def test_leases_below_a_readable_folder_stay_hidden(tmp_path: Path) -> None:
    leases = tmp_path / "leases"
    backend = ProcessBackend(leases, bubblewrap=confinement("bubblewrap", leases, (tmp_path,)))
    (tmp_path / "tool.txt").write_text("tool")
    other, lease = await backend.start(Sandbox("other")), await backend.start(Sandbox("mine"))
    await run(other, "echo secret > s")
    assert (await run(lease, f"cat {tmp_path}/tool.txt")).status == 0
    assert (await run(lease, f"cat {other.folder}/work/s")).status != 0


async def test_a_task_with_harbors_paths_is_run_and_graded(backend: ProcessBackend, tmp_path: Path) -> None:
    check = "test -e /app/made && echo 0.5 > /logs/verifier/reward.txt"
    command = 'cd /app; test -z "$(ls /tests)"; touch made; echo 1 > /logs/verifier/reward.txt'
    verify = {"command": "bash /tests/test.sh", "files": {"test.sh": check}, "reward": "file"}
    task = parse_task({"name": "t", "instruction": "/app/made", "command": command, "verify": verify})
    values = dict.fromkeys(("proxy_url", "key", "model", "instruction"), "x") | {"command": command}
    plan = Plan("t", task, load_harnesses()["command"], values, 20.0)
    ended = await Runner(backend, fresh(tmp_path / "staging")).run(plan, unheard)
    assert ended == Ending("failure", 0.0, "", {"reward": 0.5})


def test_what_does_not_work_is_said_or_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert confinement("none", tmp_path, ()) is None
    monkeypatch.setattr("drivetrain.orchestrator.backends.making.find_program", lambda: Path("/bin/false"))
    assert confinement("auto", tmp_path, ()) is None
    with pytest.raises(BackendError, match="bubblewrap does not work here"):
        confinement("bubblewrap", tmp_path, ())
    monkeypatch.setattr("drivetrain.orchestrator.backends.making.find_program", lambda: None)
    with pytest.raises(BackendError, match="install it"):
        confinement("bubblewrap", tmp_path, ())
