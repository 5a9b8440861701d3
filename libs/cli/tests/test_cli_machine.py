"""What the command asks of the machine: the lock, ports, folders, signals, leftovers."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drivetrain.cli.errors import CliError
from drivetrain.cli.interrupt import run_until_signal
from drivetrain.cli.lock import hold_lock, is_held, read_holder
from drivetrain.cli.paths import cache_dir, data_dir, new_run_dir
from drivetrain.cli.ports import free_ports, require_free
from drivetrain.cli.stack.leftovers import MARK, end_marked


def test_a_second_holder_is_told_who_runs(tmp_path: Path) -> None:
    with hold_lock(tmp_path, Path("/data/first")) as left:
        assert left is None
        assert is_held(tmp_path)
        with (
            pytest.raises(CliError, match=rf"running already \(pid {os.getpid()}, run folder /data/first\)"),
            hold_lock(tmp_path, Path("/data/second")),
        ):
            pytest.fail("two held the lock")
    assert not is_held(tmp_path)
    assert read_holder(tmp_path) is None


def test_the_lock_of_a_killed_process_is_free_and_names_its_run(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from drivetrain.cli.lock import hold_lock\n"
        f"with hold_lock(Path({str(tmp_path)!r}), Path('/data/killed')):\n    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_held(tmp_path)
        holder.kill()
    assert not is_held(tmp_path)
    with hold_lock(tmp_path, Path("/data/next")) as left:
        assert left is not None
        assert (left.pid, left.run_dir) == (holder.pid, "/data/killed")


def test_a_damaged_note_does_not_stop_anyone(tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text("{half")
    with hold_lock(tmp_path, Path("/data/run")) as left:
        assert left is None


def test_free_ports_differ_and_can_be_listened_on() -> None:
    ports = free_ports(8)
    assert len(set(ports)) == 8
    for port in ports:
        require_free(port, "127.0.0.1", "--port")


def test_a_port_in_use_names_the_remedy() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CliError, match=rf"port {port} on 127.0.0.1 .* --port"):
            require_free(port, "127.0.0.1", "--port")


def test_everything_lies_below_the_home_of_the_users_choice(home: Path) -> None:
    assert cache_dir() == home / "cache"
    assert data_dir() == home / "data"


def test_runs_of_the_same_second_get_different_folders(home: Path) -> None:
    now = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    first, second = new_run_dir("demo", now), new_run_dir("demo", now)
    assert first == home / "data" / "runs" / "demo-20310506-070809"
    assert second.name == "demo-20310506-070809-2"
    assert first.is_dir()
    assert second.is_dir()


def test_without_a_signal_the_work_ends_by_itself() -> None:
    done = []

    async def work() -> None:
        done.append("worked")

    assert run_until_signal(work()) == 0
    assert done == ["worked"]


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_work_and_lets_it_clean_up(signum: int, status: int) -> None:
    cleaned = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signum)
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            cleaned.append("clean")

    assert run_until_signal(work()) == status
    assert cleaned == ["clean"]


def test_a_second_signal_ends_the_cleaning_up() -> None:
    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)

    began = time.monotonic()
    assert run_until_signal(work()) == 143
    assert time.monotonic() - began < 10


def test_leftovers_are_found_by_their_mark_alone(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            env={**os.environ, MARK: run},
            start_new_session=True,
        )
        for run in (str(tmp_path / "mine"), str(tmp_path / "other"))
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"up\n"
        assert end_marked(str(tmp_path / "mine"), grace_s=0.2) == 1
        assert children[0].wait(5) is not None
        assert children[1].poll() is None
    finally:
        for child in children:
            child.kill()
            child.wait()
            if child.stdout:
                child.stdout.close()
